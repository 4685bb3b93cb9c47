// Losses and gradients of a case.
#include <algorithm>
#include <cmath>
#include <map>

#include "inspect/verify/verifier.h"
#include "model/open.h"
#include "publishers/formats.h"
#include "runtime/host_access.h"
#include "weights/stored.h"

namespace lamina::inspect {
namespace {

// The name of the routers' balance loss in layers.
constexpr std::string_view kBalanceLoss = "router_balance";

// The reference for relative errors of a gradient: its own size, but at least a hundredth of the
// case's largest, for gradients that consist of rounding (such as a key bias without rotary
// positions).
double gradient_scale(double own, double largest) {
  return own < 1e-5 * largest ? 1e-2 * largest : std::max(own, 1e-6);
}

}  // namespace

std::unique_ptr<train::TrainState> Verifier::training_state(bool accumulate) {
  auto state =
      std::make_unique<train::TrainState>(model_->parameters(), dtype_, accumulate, backend_);
  const auto& parameters = model_->parameters().all();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const int parameter = static_cast<int>(i);
    if (state->kept(parameter).type().storage)
      write_tensor<std::byte>(queue(), state->kept(parameter), [&](std::span<std::byte> blocks) {
        weights::read_blocks(published_, *files_, parameter, blocks.data());
      });
    else
      write_tensor<float>(queue(), state->masters()[i], [&](std::span<float> master) {
        weights::read_values(*model_, published_, *files_, parameter, master);
      });
  }
  state->refresh_copies();
  return state;
}

train::TrainState& Verifier::fresh_state() {
  if (!state_) {
    state_ = training_state(false);
    return *state_;
  }
  for (const TensorRef& gradient : state_->gradients())
    if (gradient) queue().fill(gradient, std::byte{0});
  return *state_;
}

std::vector<float> Verifier::as_published(std::size_t tensor, std::span<const TensorRef> values,
                                          weights::Values what) const {
  std::map<int, std::vector<float>> read;
  return weights::assemble(
      published_, static_cast<int>(tensor),
      [&](int parameter, std::int64_t first, std::int64_t count) {
        const auto [found, is_new] = read.try_emplace(parameter);
        if (is_new)
          found->second = copy_to_host<float>(queue(), values[static_cast<std::size_t>(parameter)]);
        return std::span<const float>(found->second)
            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      },
      what);
}

// A step that is not finite fails the rows of the report, and the note says where it began.
std::pair<train::StepResult, std::string> Verifier::gradients_of(
    train::TrainStep& step, std::span<const program::Microbatch> batches, std::int64_t number) {
  try {
    return {step.gradients(batches, number), ""};
  } catch (const train::NumericalError& error) {
    if (!error.origin) return {error.result, "is not finite"};
    return {error.result, "the first value that is not finite comes from " + error.origin->text()};
  }
}

// `model`: the case's, or one with the same parameters.
void Verifier::gradients(const decoder::Model& model, const std::string& prefix,
                         const program::Rows& rows) {
  train::TrainState& state = fresh_state();
  train::TrainStepOptions options{
      .shape = {rows.batch, rows.tokens, dtype_},
      .features = {.segments = rows.packed(), .training = true, .aux = true}};
  train::TrainStep step(model, state, options, {}, backend_);
  program::Microbatch batch = rows.microbatch();
  const auto [result, note] = gradients_of(step, {&batch, 1}, 0);
  // If layers have their own losses, loss is the sum and ce_loss the cross-entropy.
  const auto compare_loss = [&, &note = note](const std::string& name, double got) {
    if (case_.has(prefix + name))
      add(prefix + name, std::abs(got - case_.number(prefix + name)),
          case_.tolerance("loss_abs", 1e-5), note);
  };
  compare_loss("loss", result.loss + result.mean_of("aux_loss"));
  compare_loss("ce_loss", result.loss);
  for (const train::AuxScalar& scalar : result.aux_scalars)
    if (scalar.name == kBalanceLoss) compare_loss("aux_loss", scalar.value);
  compare_gradients(prefix, state);
}

// with_aux.*: the loss with the routers' balance loss, in a case whose config omits it.
void Verifier::with_aux() {
  model::OpenedModel opened = model::open(
      report_.directory, plugins_, {},
      {.sets = {fmt::format("model.{}=true", publishers::kAddBalanceLoss)}, .environment = {}});
  gradients(*opened.model, "with_aux.", read_rows(case_, ""));
}

void Verifier::compare_gradients(const std::string& prefix, const train::TrainState& state) {
  if (!has_published_tensors()) return;
  double tolerance = case_.tolerance("grad_max_abs_over_max", 1e-4), largest = 0;
  for (const auto& tensor : published_.tensors())
    for (const char* kind : {"grad.", "grad_sample."})
      if (std::string name = prefix + kind + tensor.name; case_.has(name))
        largest = std::max(largest, max_abs(case_.floats(name)));
  for (std::size_t i = 0; i < published_.tensors().size(); ++i) {
    const std::string& name = published_.tensors()[i].name;
    std::string whole = prefix + "grad." + name, sample = prefix + "grad_sample." + name,
                norm = prefix + "grad_norm." + name;
    if (!case_.has(whole) && !case_.has(sample)) continue;
    std::vector<float> got = as_published(i, state.gradients(), weights::Values::gradients);
    if (case_.has(whole)) {
      compare_gradient(whole, got, case_.floats(whole), largest);
      continue;
    }
    std::vector<float> want = case_.floats(sample), picked(want.size());
    for (std::size_t k = 0; k < picked.size(); ++k) picked[k] = got[k * 2654435761u % got.size()];
    compare_gradient(sample, picked, want, largest);
    double sum = 0, wanted_norm = case_.number(norm);
    for (float g : got) sum += static_cast<double>(g) * static_cast<double>(g);
    const double elements = std::sqrt(static_cast<double>(got.size()));
    add(norm,
        std::abs(std::sqrt(sum) - wanted_norm) / gradient_scale(wanted_norm, elements * largest),
        tolerance);
  }
}

// Relative to the tensor's largest element, or to the largest of all tensors: see gradient_scale().
void Verifier::compare_gradient(const std::string& name, const std::vector<float>& got,
                                const std::vector<float>& want, double largest,
                                double preset_tolerance) {
  add(name, max_abs_difference(got, want) / gradient_scale(max_abs(want), largest),
      case_.tolerance("grad_max_abs_over_max", preset_tolerance));
}

}  // namespace lamina::inspect
