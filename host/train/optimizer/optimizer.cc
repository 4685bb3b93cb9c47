#include "train/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "ops/tensor.h"

namespace lamina::train {
namespace {

// update_scalars(); the fused kernels read the first five.
const Type kScalars{DType::f32, {6}, {}};

Graph average_graph(std::int64_t elements, double decay) {
  Graph graph;
  Tensor average = graph.add_input("average", {DType::f32, {elements}, {}});
  Tensor now = graph.add_input("now", {DType::f32, {elements}, {}});
  graph.add_output("average", average + ops::scale(now - average, 1 - decay), 0);
  return graph;
}

}  // namespace

double clip_scale(double norm, double limit) {
  return limit <= 0 ? 1.0 : std::min(1.0, limit / (norm + kClipMargin));
}

Optimizer::Optimizer(const decoder::ParameterTable& parameters,
                     const config::OptimizerSection& config, const Backend& backend)
    : parameters_(parameters),
      config_(config),
      arena_(backend),
      gradients_(parameters, arena_),
      fused_(arena_, [this](const FusedAdamw& kind) { return fused_adamw_graph(kind, config_); }),
      updates_(arena_, [this](const UpdateKind& kind) { return update_graph(kind, config_); }),
      averages_(arena_,
                [](const Average& kind) { return average_graph(kind.elements, kind.decay); }) {
  for (std::size_t i = 0; i < parameters.all().size(); ++i) scalars_.add_input(kScalars);
  scalars_.allocate();
}

void Optimizer::measured(int parameter, double sum_of_squares) {
  const double multiplier = parameters_[parameter].learning.multiplier;
  measured_[parameter] = sum_of_squares * (multiplier * multiplier);
}

double Optimizer::gradient_norm(const TrainState& state) {
  std::vector<double> sums = gradients_.sums_of_squares(state);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double multiplier = parameters_.all()[i].learning.multiplier;
    sums[i] *= multiplier * multiplier;
  }
  for (const auto& [parameter, sum] : measured_) sums[static_cast<std::size_t>(parameter)] = sum;
  measured_.clear();
  double total = 0;
  norms_.clear();
  for (const double sum : sums) {
    total += sum;
    norms_.push_back(std::sqrt(sum));
  }
  return global_norm_ = std::sqrt(total);
}

std::vector<double> Optimizer::clip_scales(double norm, bool each) const {
  std::vector<double> out(norms_.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = clip_scale(each ? norms_[i] : global_norm_, norm);
  return out;
}

void Optimizer::average(const TrainState& state, double decay) {
  for (std::size_t i = 0; i < state.averages().size(); ++i) {
    if (!state.averages()[i]) continue;
    state.will_change(static_cast<int>(i));
    const std::int64_t n = parameters_.all()[i].num_elements();
    for (std::int64_t first = 0; first < n; first += kMaxPiece) {
      const std::int64_t count = std::min(kMaxPiece, n - first);
      const Type type{DType::f32, {count}, {}};
      const TensorRef average = state.averages()[i].part(first, type);
      const ConstTensorRef in[] = {average, state.masters()[i].part(first, type)};
      averages_.run({count, decay}, in, {&average, 1});
    }
  }
}

void Optimizer::update(const TrainState& state, double lr,
                       const std::vector<double>& gradient_scales, std::int64_t step) {
  std::vector<int> updated;
  for (int i = 0; i < std::ssize(parameters_.all()); ++i) {
    if (!parameters_[i].learns() || state.lists().is_shared(i)) continue;
    set_scalars(i, lr, gradient_scales[static_cast<std::size_t>(i)], step);
    updated.push_back(i);
  }
  for (const int parameter : updated) run_update(state, parameter);
}

// With p = multiplier * w, dL/dw is multiplier * dL/dp, and a step of w moves p that much further.
std::array<float, kNumScalars> Optimizer::scalars(int parameter, double lr, double gradient_scale,
                                                  std::int64_t step) const {
  const decoder::Parameter& p = parameters_[parameter];
  const double multiplier = p.learning.multiplier;
  return update_scalars(rule_of(p, config_), config_, lr * p.learning.lr_scale * multiplier,
                        gradient_scale * multiplier, step + 1);
}

void Optimizer::set_scalars(int parameter, double lr, double gradient_scale, std::int64_t step) {
  const auto narrow = scalars(parameter, lr, gradient_scale, step);
  std::array<double, kNumScalars> wide;
  std::ranges::copy(narrow, wide.begin());
  scalars_.set(static_cast<std::size_t>(parameter), wide);
}

void Optimizer::run_update(const TrainState& state, int parameter) {
  state.will_change(parameter);
  if (is_fused(rule_of(parameters_[parameter], config_), config_))
    update_adamw(state, parameter);
  else
    update_by_rule(state, parameter);
}

void Optimizer::update_adamw(const TrainState& state, int parameter) {
  const auto i = static_cast<std::size_t>(parameter);
  const bool copy = state.has_copy(parameter);
  const TensorRef &master = state.masters()[i], &m = state.first_moments()[i],
                  &v = state.second_moments()[i];
  const ConstTensorRef g = state.gradients()[i], scalars = scalars_.input(i);
  const TensorRef used = copy ? state.copies()[i] : TensorRef();
  const TensorRef out[] = {master, m, v, used};
  const std::span<const TensorRef> results(out, copy ? 4 : 3);
  const bool listed = state.is_listed(parameter);
  const FusedAdamw kind =
      fused_kind(parameters_[parameter], config_, listed ? state.lists().step[i] : 0, copy);
  if (!listed) {
    const ConstTensorRef in[] = {master, g, m, v, scalars};
    fused_.run(kind, in, results);
    return;
  }
  const ConstTensorRef in[] = {master, state.gradient_ids()[i], g, m, v, scalars, used};
  fused_.run(kind, std::span(in, copy ? 7 : 6), results);
}

TensorRef Optimizer::whole_gradient(const TrainState& state, int parameter) {
  if (!state.is_listed(parameter)) return state.gradients()[static_cast<std::size_t>(parameter)];
  const Type type{DType::f32, parameters_[parameter].desc.shape, {}};
  const auto bytes = static_cast<std::size_t>(type.bytes());
  if (!spread_ || spread_->bytes() < bytes) spread_ = arena_.backend().allocate(bytes);
  const TensorRef whole(*spread_, 0, type);
  gradients_.spread(state, parameter, whole);
  return whole;
}

void Optimizer::update_by_rule(const TrainState& state, int parameter) {
  const TensorRef gradient = whole_gradient(state, parameter);
  for (const UpdatePiece& piece :
       update_pieces(parameters_[parameter], config_, state.has_copy(parameter)))
    update_piece(state, parameter, piece, gradient);
}

void Optimizer::update_piece(const TrainState& state, int parameter, const UpdatePiece& piece,
                             const TensorRef& gradient) {
  const auto& [kind, first] = piece;
  const auto i = static_cast<std::size_t>(parameter);
  auto from = [](const TensorRef& tensor, std::int64_t element) {
    const std::int64_t left = tensor.type().num_elements() - element;
    return tensor.part(element, {tensor.type().dtype, {left}, {}});
  };
  std::vector<TensorRef> out{from(state.masters()[i], first)};
  std::vector<ConstTensorRef> in{out[0], from(gradient, first)};
  for (const OptimizerState& kept : state.optimizer_states()) {
    if (!kept.types[i]) continue;
    const bool scales = kept.types[i]->num_elements() < parameters_[parameter].num_elements() &&
                        config_.moments == "8bit";
    out.push_back(from(kept.data[i], scales ? first / kBlock : first));
    in.push_back(out.back());
  }
  in.push_back(scalars_.input(i));
  if (kind.copy) out.push_back(from(state.copies()[i], first));
  updates_.run(kind, in, out);
}

std::size_t Optimizer::scratch_bytes(const GradientLists& lists, DType compute) {
  std::size_t arena = 0, whole = 0;
  const auto add = [&](std::size_t bytes) { arena = std::max(arena, bytes); };
  for (std::size_t i = 0; i < parameters_.all().size(); ++i) {
    const decoder::Parameter& p = parameters_.all()[i];
    const auto parameter = static_cast<int>(i);
    if (!p.learns() || lists.is_shared(parameter)) continue;
    const std::int64_t slots = i < lists.step.size() ? lists.step[i] : 0;
    const bool copy = p.used_dtype(compute) != DType::f32;
    if (is_fused(rule_of(p, config_), config_)) {
      add(fused_.get(fused_kind(p, config_, slots, copy)).arena_bytes());
      continue;
    }
    if (slots > 0) {
      whole = std::max(whole, static_cast<std::size_t>(p.num_elements()) * sizeof(float));
      add(gradients_.spread_bytes(parameter, slots));
    }
    for (const UpdatePiece& piece : update_pieces(p, config_, copy))
      add(updates_.get(piece.kind).arena_bytes());
  }
  return arena + whole;
}

}  // namespace lamina::train
