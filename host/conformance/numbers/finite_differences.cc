#include "conformance/numbers/finite_differences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "conformance/check.h"
#include "conformance/numbers/layer_losses.h"
#include "conformance/subjects/rows.h"
#include "program/microbatch.h"
#include "runtime/host_access.h"
#include "train/optimizer/gradients.h"

namespace lamina::conformance {
namespace {

using decoder::Input;
using program::Rows;

constexpr double kZLossScale = 1e-2;
// Small compared with rounding to f32: a choice of experts must not change.
constexpr double kStep = 1e-6;

class FiniteDifferences {
 public:
  explicit FiniteDifferences(const ModelCase& c)
      : c_(c), model_(c.open(true)), draws_(model_.has_dropout()), rows_(packed_rows(model_)) {
    require_float64(model_);
    const weights::Weights weights = c.load(model_, DType::f64);
    const auto& all = model_.parameters().all();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t bytes = static_cast<std::size_t>(all[i].num_elements()) *
                                static_cast<std::size_t>(size_bytes(all[i].used_dtype(DType::f64)));
      parameters_.emplace_back(bytes);
      read_tensor<std::byte>(c.backend().context().queue(), weights.pointers()[i],
                             [&](std::span<const std::byte> from) {
                               std::ranges::copy(from, parameters_[i].begin());
                             });
    }
  }

  std::vector<std::string> losses_of_layers() const { return layer_losses(model_, shape()); }

  // Checks the loss that a model learns from without auxiliary losses, or one auxiliary loss.
  void check(int directions, const std::string& layer_loss = {}) {
    layer_loss_ = layer_loss;
    forward_ = std::make_unique<program::BoundProgram>(loss_graph(), c_.backend());
    prepare(*forward_);
    arena_ = c_.backend().allocate(forward_->arena_bytes());
    const std::vector<std::vector<double>> gradients = backward();
    const double largest = largest_of(gradients);
    std::mt19937 random(31);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const decoder::Parameter& p = model_.parameters().all()[i];
      if (!p.desc.trained || p.used_dtype(DType::f64) != DType::f64) continue;
      // Parameters that an auxiliary loss depends on without teaching them have no gradient.
      if (!layer_loss.empty() && largest_of({gradients[i]}) == 0) continue;
      for (int d = 0; d < directions; ++d) check_direction(i, gradients[i], largest, random);
    }
  }

  void check_something_learns_from(const std::string& layer_loss) {
    layer_loss_ = layer_loss;
    if (largest_of(backward()) > 0 || (has_single_experts() && is_constant())) return;
    fail("no parameter has a gradient of auxiliary loss '{}'", layer_loss);
  }

 private:
  static double largest_of(const std::vector<std::vector<double>>& gradients) {
    double out = 0;
    for (const auto& g : gradients)
      for (const double x : g) out = std::max(out, std::abs(x));
    return out;
  }

  // Two documents in a row: blocks must stop at the border between them in the backward pass, too.
  static Rows packed_rows(const decoder::Model& of) {
    const std::int64_t tokens = row_tokens(of);
    if (of.length_dependent_from()) return random_rows(of, 1, tokens, 5);
    return pack({random_rows(of, 1, tokens * 3 / 5, 5), random_rows(of, 1, tokens / 3, 6)}, tokens);
  }

  decoder::GraphShape shape() const { return {.tokens = rows_.tokens, .dtype = DType::f64}; }

  decoder::ModelGraph loss_graph() const {
    if (!layer_loss_.empty()) return layer_loss_graph(model_, shape(), layer_loss_, draws_);
    return model_.loss_graph(shape(), {.segments = true, .training = draws_, .mtp = predicts()});
  }

  // True if every router has one expert, whose load is always the same.
  bool has_single_experts() const {
    bool any = false;
    for (const decoder::Parameter& p : model_.parameters().all()) {
      if (p.desc.role != registry::Role::router || p.desc.shape.ndim() < 2) continue;
      if (std::ranges::find(p.desc.shape.dims(), 1) == p.desc.shape.dims().end()) return false;
      any = true;
    }
    return any;
  }

  // True if the loss is the same with other weights.
  bool is_constant() {
    forward_ = std::make_unique<program::BoundProgram>(loss_graph(), c_.backend());
    prepare(*forward_);
    arena_ = c_.backend().allocate(forward_->arena_bytes());
    const double before = objective();
    const std::vector<std::vector<std::byte>> kept = parameters_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const decoder::Parameter& p = model_.parameters().all()[i];
      if (p.used_dtype(DType::f64) != DType::f64) continue;
      auto* elements = reinterpret_cast<double*>(parameters_[i].data());
      for (std::int64_t e = 0; e < p.num_elements(); ++e) elements[e] *= e % 2 == 0 ? 1.25 : 0.75;
    }
    const double after = objective();
    for (std::size_t i = 0; i < kept.size(); ++i)
      std::ranges::copy(kept[i], parameters_[i].begin());
    return std::abs(after - before) <= 1e-12 * std::abs(before);
  }

  // True if multi-token prediction has a loss in the objective.
  bool predicts() const { return model_.mtp_depth() > 0 && !model_.options().head.no_loss; }

  // Binds everything except the gradients of the program.
  void prepare(program::BoundProgram& program) {
    std::vector<ConstTensorRef> parameters;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const decoder::Parameter& p = model_.parameters().all()[i];
      parameters.push_back(host_tensor(std::as_const(parameters_[i]).data(),
                                       Type{p.used_dtype(DType::f64), p.desc.shape, {}}));
    }
    program.bind_parameters(parameters);
    rows_.microbatch().bind(program);
    program.set(Input::seed, std::array<std::int64_t, 2>{5, 2});  // the same draws every time
  }

  double objective() {
    forward_->run(*arena_);
    return forward_->loss("loss") + kZLossScale * forward_->loss("z_loss") +
           forward_->loss("mtp_loss");
  }

  std::vector<std::vector<double>> backward() {
    program::BoundProgram program(
        train::add_gradients(loss_graph(), model_.parameters(), autodiff::save_everything()),
        c_.backend());
    prepare(program);
    std::vector<std::vector<double>> out;
    std::vector<TensorRef> tensors;
    for (const decoder::Parameter& p : model_.parameters().all()) {
      out.emplace_back(static_cast<std::size_t>(p.num_elements()));
      tensors.push_back(host_tensor(std::span(out.back())));
    }
    program.bind_gradients(tensors);
    program.set_loss_scales({{"loss", 1}, {"z_loss", kZLossScale}, {"mtp_loss", 1}});
    auto arena = c_.backend().allocate(program.arena_bytes());
    program.run(*arena);
    return out;
  }

  void check_direction(std::size_t parameter, const std::vector<double>& gradient, double largest,
                       std::mt19937& random) {
    auto* elements = reinterpret_cast<double*>(parameters_[parameter].data());
    const std::vector<double> kept(elements, elements + gradient.size());
    std::normal_distribution<double> normal;
    std::vector<double> direction;
    double derivative = 0, length = 0, steepest = 0;
    for (double g : gradient) {
      direction.push_back(normal(random));
      derivative += g * direction.back();
      length += direction.back() * direction.back();
      steepest += g * g;
    }
    length = std::sqrt(length);
    const auto objective_at = [&](double shift) {
      for (std::size_t e = 0; e < kept.size(); ++e)
        elements[e] = kept[e] + shift * direction[e] / length;
      return objective();
    };
    const double above = objective_at(kStep), below = objective_at(-kStep);
    std::copy(kept.begin(), kept.end(), elements);
    const double measured = (above - below) / (2 * kStep);
    // Differences below the last term are rounding: two losses are subtracted.
    const double allowed = 1e-4 * std::sqrt(steepest / static_cast<double>(kept.size())) +
                           1e-6 * largest +
                           4 * std::numeric_limits<double>::epsilon() * std::abs(above) / kStep;
    const auto is_equal = [&](double found) {
      return std::abs(derivative / length - found) <= allowed;
    };
    if (is_equal(measured)) return;
    // A choice (of experts, of chunks) may flip on one side: then the other side has the
    // derivative.
    const double here = objective();
    if (!is_equal((above - here) / kStep) && !is_equal((here - below) / kStep))
      fail(
          "the gradient of '{}'{} is {:.6g} along a direction where finite differences give "
          "{:.6g}; rounding is at most {:.2g}",
          model_.parameters().all()[parameter].name,
          layer_loss_.empty() ? "" : fmt::format(" for auxiliary loss '{}'", layer_loss_),
          derivative / length, measured, allowed);
  }

  const ModelCase& c_;
  const decoder::Model model_;
  const bool draws_;
  const Rows rows_;
  std::string layer_loss_;  // empty: the loss without auxiliary losses
  std::vector<std::vector<std::byte>> parameters_;
  std::unique_ptr<program::BoundProgram> forward_;
  std::unique_ptr<Buffer> arena_;
};

}  // namespace

void check_finite_differences(const ModelCase& c, int directions) {
  FiniteDifferences differences(c);
  differences.check(directions);
  for (const std::string& name : differences.losses_of_layers())
    differences.check(directions, name);
}

void check_layer_losses_have_gradients(const ModelCase& c) {
  FiniteDifferences differences(c);
  for (const std::string& name : differences.losses_of_layers())
    differences.check_something_learns_from(name);
}

}  // namespace lamina::conformance
