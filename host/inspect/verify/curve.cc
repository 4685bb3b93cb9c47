// Compares a short training run from a case's weights.
#include <algorithm>
#include <cmath>
#include <limits>

#include "inspect/verify/verifier.h"
#include "train/loop/schedule.h"

namespace lamina::inspect {

// Cases of runs do not have the first gradient. Recurrent layers differ most.
constexpr double kGradientTolerance = 5e-4;

namespace {

// The number `key` of a recipe, at least `min` and below `max`.
double number_in(const JsonValue& recipe, std::string_view key, double min, double max) {
  const JsonValue value = recipe.at(key);
  const double number = value.as_double();
  if (number < min || number >= max)
    value.fail(fmt::format("must be at least {} and below {}, got {}", min, max, value.describe()));
  return number;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

// A training run of some steps from the case's weights: loss, gradient norm and learning rate of
// each, parameters after the first and the last.
void Verifier::curve() {
  JsonValue recipe = case_.info.root().at("recipe");
  Shape shape = case_.shape("batches.input_ids");  // [steps, microbatches, B, T]
  std::vector<std::int32_t> ids = case_.ints("batches.input_ids"),
                            labels = case_.ints("batches.labels");
  train::TrainStepOptions options{.shape = {shape[2], shape[3], dtype_},
                                  .features = {.training = true, .aux = true},
                                  .microbatches = shape[1],
                                  .clip_norm = number_in(recipe, "clip", 0, kInfinity)};
  config::OptimizerSection optimizer;
  optimizer.lr = number_in(recipe, "peak_lr", 0, kInfinity);
  optimizer.beta1 = number_in(recipe, "beta1", 0, 1);
  optimizer.beta2 = number_in(recipe, "beta2", 0, 1);
  optimizer.eps = number_in(recipe, "eps", 0, kInfinity);
  optimizer.weight_decay = number_in(recipe, "weight_decay", 0, kInfinity);
  const JsonValue warmup = recipe.at("warmup");
  if (warmup.as_int64() < 0) warmup.fail("must be at least 0, got " + warmup.describe());
  config::ScheduleSection schedule{"cosine", warmup.as_int64(),
                                   number_in(recipe, "floor", 0, kInfinity)};
  auto state = training_state(shape[1] > 1);
  train::TrainStep step(*model_, *state, options, optimizer, backend_);
  std::vector<float> loss = case_.floats("loss"), norm = case_.floats("grad_norm"),
                     lr = case_.floats("lr");
  std::vector<float> loss_tolerance = case_.floats("tolerance.loss"),
                     norm_tolerance = case_.floats("tolerance.grad_norm");
  auto step_rows = [&](std::int64_t s, std::int64_t m) {
    std::int64_t per_batch = shape[2] * shape[3], at = (s * shape[1] + m) * per_batch;
    return program::rows_of({ids.begin() + at, ids.begin() + at + per_batch},
                            std::span(labels).subspan(static_cast<std::size_t>(at),
                                                      static_cast<std::size_t>(per_batch)),
                            shape[2], shape[3]);
  };
  for (std::int64_t s = 0; s < shape[0]; ++s) {
    std::vector<program::Rows> rows;
    for (std::int64_t m = 0; m < shape[1]; ++m) rows.push_back(step_rows(s, m));
    std::vector<program::Microbatch> batches;
    for (const program::Rows& r : rows) batches.push_back(r.microbatch());
    std::size_t i = static_cast<std::size_t>(s);
    double rate = train::learning_rate(schedule, optimizer.lr, s, shape[0]);
    auto [got, note] = gradients_of(step, batches, s);
    if (s == 0 && has_published_tensors()) {
      for (std::size_t p = 0; p < published_.tensors().size(); ++p)
        if (std::string name = "grad1." + published_.tensors()[p].name; case_.has(name))
          compare_gradient(name, as_published(p, state->gradients(), weights::Values::gradients),
                           case_.floats(name), 0, kGradientTolerance);
    }
    if (note.empty()) step.update(got, rate, s);
    add(fmt::format("loss of step {}", s + 1), std::abs(got.loss - static_cast<double>(loss[i])),
        static_cast<double>(loss_tolerance[i]), note);
    if (!note.empty()) break;  // nothing was updated, so later steps are unknown
    add(fmt::format("grad_norm of step {}", s + 1),
        std::abs(got.gradient_norm - static_cast<double>(norm[i])),
        static_cast<double>(norm_tolerance[i]));
    add(fmt::format("lr of step {}", s + 1), std::abs(rate / static_cast<double>(lr[i]) - 1), 1e-6);
    if (s == 0) compare_parameters("after1.", *state, "tolerance_after1");
  }
  compare_parameters("final.", *state, "tolerance_final");
  if (case_.has("final_logits"))
    add("final_logits",
        max_abs_difference(
            inspect::forward(*model_, state->used(), step_rows(0, 0), {.dtype = dtype_}, backend_)
                .logits,
            case_.floats("final_logits")),
        8 * case_.info.root().at("spread_of_final_logits").as_double() + 1e-6);
  known_.insert(known_.end(), {"loss", "grad_norm", "lr", "tolerance.loss", "tolerance.grad_norm",
                               "batches.input_ids", "batches.labels"});
}

void Verifier::compare_parameters(const std::string& prefix, const train::TrainState& state,
                                  const char* tolerance) {
  if (!has_published_tensors()) return;
  JsonValue allowed = case_.info.root().at(tolerance);
  for (std::size_t p = 0; p < published_.tensors().size(); ++p) {
    std::string name = prefix + published_.tensors()[p].name;
    if (!case_.has(name)) continue;
    std::vector<float> got = as_published(p, state.masters(), weights::Values::weights),
                       want = case_.floats(name);
    double sum = got.size() == want.size() ? 0 : kInfinity;
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
      sum += d * d;
    }
    add(name, max_abs_difference(got, want), allowed.at("max_abs").as_double());
    add(name + " (rms)", std::sqrt(sum / static_cast<double>(got.size())),
        allowed.at("rms").as_double());
  }
}

}  // namespace lamina::inspect
