#include "train/loop/train_step.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "decoder/mtp/mtp_labels.h"
#include "train/optimizer/gradient_sums.h"
#include "train/optimizer/gradients.h"

namespace lamina::train {

using decoder::Input;
using decoder::Output;

namespace {

decoder::ModelGraph loss_graph(const decoder::Model& model, const TrainStepOptions& options) {
  decoder::GraphFeatures features = options.features;
  features.uniform_loss = options.label_smoothing > 0;
  return options.task->loss_graph(model, options.shape, features);
}

decoder::ModelGraph whole_graph(const decoder::Model& model, const TrainStepOptions& options) {
  return add_gradients(loss_graph(model, options), model.parameters(),
                       find_remat_policy(options.remat, options.remat_tags).save_policy());
}

decoder::ModelGraph with_sums(decoder::ModelGraph graph, const TrainStepOptions& options) {
  return options.microbatches > 1 ? carry_gradient_sums(std::move(graph)) : std::move(graph);
}

decoder::ModelGraph checked(decoder::ModelGraph graph, const decoder::Model& model,
                            const TrainState& state, const TrainStepOptions& options,
                            bool in_backward) {
  LAMINA_ASSERT(gradient_lists(graph, model.parameters(), options.microbatches, in_backward) ==
                state.lists());
  return graph;
}

// "'layers.0.attention.wq.weight' is inf at element 3 of [16, 16]"
}  // namespace

std::string non_finite_weight(const decoder::ParameterTable& parameters, const TrainState& state) {
  for (std::size_t i = 0; i < parameters.all().size(); ++i) {
    const decoder::Parameter& p = parameters.all()[i];
    if (auto bad = first_non_finite(state.values(static_cast<int>(i))))
      return bad_element_text(p, *bad);
  }
  return "";
}

RematPolicy remat_policy(const TrainStepOptions& options, const decoder::Model& model,
                         const config::KeyPlace& place) {
  RematPolicy policy = find_remat_policy(options.remat, options.remat_tags, place);
  if (!options.remat_tags.empty())
    check_remat_tags(options.remat_tags, passes::simplify(loss_graph(model, options).graph), place);
  return policy;
}

decoder::ModelGraph step_graph(const decoder::Model& model, const TrainStepOptions& options) {
  return with_sums(list_table_gradients(whole_graph(model, options)), options);
}

TrainStep::TrainStep(const decoder::Model& model, TrainState& state,
                     const TrainStepOptions& options, const config::OptimizerSection& optimizer,
                     const Backend& backend)
    : TrainStep(model, with_sums(whole_graph(model, options), options), state, options, optimizer,
                backend) {}

TrainStep::TrainStep(const decoder::Model& model, decoder::ModelGraph graph, TrainState& state,
                     const TrainStepOptions& options, const config::OptimizerSection& optimizer,
                     const Backend& backend)
    : model_(model),
      state_(state),
      options_(options),
      program_(checked(std::move(graph), model, state, options, optimizer.in_backward), backend),
      optimizer_(model.parameters(), optimizer, backend),
      aux_(program_, model.parameters()),
      qk_clip_(program_.query_keys(), model.parameters(), optimizer),
      arena_(backend.allocate(program_.arena_bytes())) {
  program_.bind_parameters(state.used());
  if (optimizer.in_backward) {
    LAMINA_ASSERT(options_.microbatches == 1 && (options_.clip_norm == 0 || options_.clip_each));
    in_backward_.emplace(program_, state_, optimizer_, options_.clip_norm);
  }
}

StepResult TrainStep::gradients(std::span<const program::Microbatch> microbatches,
                                std::int64_t step) {
  LAMINA_ASSERT(static_cast<std::int64_t>(microbatches.size()) == options_.microbatches);
  std::int64_t per_batch = options_.shape.batch * options_.shape.tokens;
  StepResult result;
  std::int64_t mtp_labels = 0, terms = 0;
  for (const program::Microbatch& batch : microbatches) {
    result.num_labels += program::count_labels(batch.labels, per_batch);
    terms += options_.task->count(batch, options_.shape);
    mtp_labels += decoder::count_mtp_labels(
        batch.labels, options_.features.segments ? batch.segments : nullptr, options_.shape.batch,
        options_.shape.tokens, model_.mtp_depth(), model_.options().mtp.chained);
  }
  // The mean is over all microbatches, so each contributes by its number of labels or pairs.
  double denominator = static_cast<double>(std::max<std::int64_t>(terms, 1));
  const double smoothing = options_.label_smoothing;
  const Task::Shares shares = options_.task->shares();
  float loss_scale = static_cast<float>(shares.loss * (1 - smoothing) / denominator);
  float uniform_scale = static_cast<float>(shares.loss * smoothing / denominator);
  float divergence_scale = static_cast<float>(shares.divergence / denominator);
  float hidden_scale = static_cast<float>(shares.hidden / denominator);
  float z_scale = static_cast<float>(options_.z_loss / denominator);
  float aux_scale = static_cast<float>(1 / static_cast<double>(microbatches.size()));
  double mtp_denominator = static_cast<double>(std::max<std::int64_t>(mtp_labels, 1));
  float mtp_scale = static_cast<float>(1 / mtp_denominator);
  std::int64_t draw = step * options_.microbatches;
  std::int64_t seed[2] = {static_cast<std::int64_t>(options_.seed), 0};
  float loss = 0, z_loss = 0, uniform_loss = 0, divergence = 0, hidden_distance = 0;
  program_.bind(Input::loss_scale, &loss_scale);
  program_.bind(Input::z_loss_scale, &z_scale);
  program_.bind(Input::uniform_scale, &uniform_scale);
  program_.bind(Input::divergence_scale, &divergence_scale);
  program_.bind(Input::hidden_scale, &hidden_scale);
  program_.bind(Input::aux_scale, &aux_scale);
  program_.bind(Input::mtp_scale, &mtp_scale);
  program_.bind(Output::loss, &loss);
  program_.bind(Output::z_loss, &z_loss);
  program_.bind(Output::uniform_loss, &uniform_loss);
  program_.bind(Output::divergence, &divergence);
  program_.bind(Output::hidden_distance, &hidden_distance);
  program_.bind(Input::seed, seed);
  double total_divergence = 0, total_distance = 0;
  aux_.begin();
  if (in_backward_) in_backward_->begin(lr_, update_);
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    seed[1] = draw + static_cast<std::int64_t>(i);
    run_microbatch(microbatches, i);
    if (i == 0)
      state_.clear_later_slots();
    else
      optimizer_.join_lists(state_);
    result.loss += loss;
    result.z_loss += z_loss;
    result.uniform_loss += uniform_loss;
    total_divergence += divergence;
    total_distance += hidden_distance;
    aux_.add();
  }
  if (in_backward_) in_backward_->end();
  result.loss /= denominator;
  result.z_loss /= denominator;
  result.uniform_loss /= denominator;
  result.aux_loss = aux_.aux_loss();
  result.mtp_loss = aux_.mtp_sum() / mtp_denominator;
  result.total = result.loss + options_.z_loss * result.z_loss + result.aux_loss + result.mtp_loss;
  if (smoothing > 0) result.total += smoothing * (result.uniform_loss - result.loss);
  result.aux_scalars = aux_.scalars();
  result.task_means = aux_.task_sums();
  for (AuxScalar& mean : result.task_means) mean.value /= denominator;
  if (teacher_) {
    const double kl = total_divergence / denominator;
    const double labels = (1 - smoothing) * result.loss + smoothing * result.uniform_loss;
    result.total += (shares.loss - 1) * labels + shares.divergence * kl;
    result.task_means.push_back({"kl", kl});
    if (!options_.task->teacher().layers.empty()) {
      const double distance = total_distance / denominator;
      result.total += shares.hidden * distance;
      result.task_means.push_back({"hidden", distance});
    }
  }
  result.gradient_norm = optimizer_.gradient_norm(state_);
  if (!std::isfinite(result.total) || !std::isfinite(result.gradient_norm))
    fail(microbatches, step, seed, result);
  return result;
}

void TrainStep::set_teacher(Teacher* teacher) {
  teacher_ = teacher;
  teacher_->bind(program_);
}

void TrainStep::run_microbatch(std::span<const program::Microbatch> microbatches, std::size_t i) {
  microbatches[i].bind(program_);
  if (teacher_) teacher_->run(microbatches[i]);
  if (i == 0 && microbatches.size() > 1) optimizer_.clear_sums(state_);
  if (i == 0)
    program_.bind_gradients(state_.gradients(), state_.gradient_ids());
  else
    program_.bind_gradients(state_.more_gradients(), state_.more_gradient_ids());
  program_.run(*arena_);
}

// Runs the step once more, which has the same results, and watches each op. REQUIRES: what
// gradients() bound is still there, `seed` too.
void TrainStep::fail(std::span<const program::Microbatch> microbatches, std::int64_t step,
                     std::int64_t (&seed)[2], const StepResult& result) {
  ErrorText text{fmt::format("step {}", step + 1), "", {}};
  auto bad = in_backward_ ? in_backward_->bad() : std::nullopt;
  if (!bad) bad = optimizer_.first_non_finite(state_);
  if (bad) {
    const decoder::Parameter& p = model_.parameters()[bad->parameter];
    text.what = fmt::format("the gradient of {}", bad_element_text(p, bad->at));
  } else {
    text.what = fmt::format("the loss is {}", result.total);
  }
  const std::string weight = non_finite_weight(model_.parameters(), state_);
  std::optional<NonFinite> origin;
  std::int64_t origin_microbatch = 0;
  bool found = false;
  for (std::size_t i = 0; i < microbatches.size() && !found; ++i) {
    seed[1] = step * options_.microbatches + static_cast<std::int64_t>(i);
    NonFiniteFinder finder(program_, model_.parameters());
    run_microbatch(microbatches, i);
    found = finder.is_found();
    if (!finder.found() || (origin && !found)) continue;
    origin = finder.found();
    origin_microbatch = static_cast<std::int64_t>(i);
  }
  const int num_updated = in_backward_ ? in_backward_->num_updated() : 0;
  text.notes = {fmt::format(
      "loss {}, gradient norm {}; {}", result.loss, result.gradient_norm,
      num_updated == 0 ? "nothing was updated"
                       : fmt::format("{} parameters were updated in this backward pass, as "
                                     "optimizer.in_backward has it: go on from a checkpoint",
                                     num_updated))};
  if (!weight.empty()) text.notes.push_back("before this step the weight " + weight);
  if (origin) text.notes.push_back("it began with " + origin->text());
  text.notes.emplace_back(
      "try a lower optimizer.lr, a longer schedule.warmup_steps, or train.dtype = "
      "\"float32\"");
  NumericalError error(ExitCode::numerical, std::move(text));
  error.result = result;
  error.origin = std::move(origin);
  error.microbatch = origin_microbatch;
  error.weight = weight;
  throw error;
}

void TrainStep::update(StepResult& result, double lr, std::int64_t step) {
  result.lr = lr;
  optimizer_.update(state_, lr, optimizer_.clip_scales(options_.clip_norm, options_.clip_each),
                    step);
  aux_.apply(state_);
  qk_clip_.apply(state_, aux_.maxima(decoder::kMaxLogits));
  optimizer_.average(state_, options_.ema);
}

StepResult TrainStep::run(std::span<const program::Microbatch> microbatches, double lr,
                          std::int64_t step) {
  set_update(lr, step);
  StepResult result = gradients(microbatches, step);
  update(result, lr, step);
  return result;
}

}  // namespace lamina::train
