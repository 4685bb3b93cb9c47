#include "train/loop/train_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "decoder/mtp/mtp_labels.h"
#include "train/optimizer/backward_rounds.h"
#include "train/optimizer/gradient_sums.h"
#include "train/optimizer/gradients.h"

namespace lamina::train {

using decoder::Input;

namespace {

LossWeights weights_of(const TrainStepOptions& options) {
  return loss_weights(options.z_loss, options.label_smoothing, *options.task);
}

decoder::ModelGraph loss_graph(const decoder::Model& model, const TrainStepOptions& options) {
  decoder::GraphFeatures features = options.features;
  features.losses = wanted_losses(weights_of(options));
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
                            const TrainState& state, const TrainStepOptions& options) {
  LAMINA_ASSERT(step_lists(graph, model, options) == state.lists());
  return graph;
}

}  // namespace

double StepResult::mean_of(std::string_view term) const {
  for (const LossMean& of : terms)
    if (of.term.name == term) return of.mean;
  return 0;
}

void StepResult::write(MetricsRecord& record) const {
  record.add("train/loss", loss);
  if (has_perplexity) record.add("train/ppl", std::exp(loss));
  record.add("train/grad_norm", gradient_norm).add("train/lr", lr);
  // Terms with a part in the total: terms of labels come before the total, the others after it.
  const auto write_terms = [&](bool of_items) {
    for (const LossMean& of : terms)
      if (of.term.report == decoder::LossReport::metrics && of.weight * of.mean != 0 &&
          (of.term.count == decoder::LossCount::items) == of_items)
        record.add("train/" + of.term.name, of.mean);
  };
  write_terms(true);
  if (total != loss) record.add("train/total_loss", total);
  write_terms(false);
  for (const auto* numbers : {&task_means, &aux_scalars})
    for (const AuxScalar& number : *numbers) record.add("train/" + number.name, number.value);
}

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

std::unique_ptr<Teacher> make_teacher(const TeacherModel& model, const TrainStepOptions& options,
                                      const Backend& backend) {
  return std::make_unique<Teacher>(model, options.shape.batch, options.shape.tokens,
                                   options.task->teacher(), backend);
}

decoder::ModelGraph step_graph(const decoder::Model& model, const TrainStepOptions& options) {
  decoder::ModelGraph graph = list_table_gradients(whole_graph(model, options));
  LAMINA_ASSERT(!options.in_backward ||
                (options.microbatches == 1 && (options.clip_norm == 0 || options.clip_each)));
  return with_sums(std::move(graph), options);
}

GradientLists step_lists(const decoder::ModelGraph& graph, const decoder::Model& model,
                         const TrainStepOptions& options) {
  GradientLists out = gradient_lists(graph, model.parameters(), options.all_microbatches());
  // The gradients of a round are summed over the devices while the next one runs.
  if (options.in_backward) share_rounds(graph, model.parameters(), options.is_part() ? 2 : 1, out);
  return out;
}

void check_effects(const config::OptimizerSection& optimizer, const decoder::ModelGraph& graph,
                   const GradientLists& lists, const config::KeyPlace& place) {
  const auto refuse = [&](const char* key, const char* what, const char* note) {
    throw UserError(ExitCode::usage, {place ? place(key) : key, what, {note}});
  };
  if (optimizer.lazy_embeddings && !lists.any())
    refuse("optimizer.lazy_embeddings",
           "this model has no lookup-only table, so it would have no effect",
           "remove it; a tied token table is read whole by the head");
  if (optimizer.qk_clip > 0 && graph.query_keys.empty())
    refuse("optimizer.qk_clip", "is for latent attention, which this model does not have",
           "remove it");
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
      weights_(weights_of(options)),
      program_(checked(std::move(graph), model, state, options), backend),
      optimizer_(model.parameters(), optimizer, backend),
      changes_(model.parameters(), state, optimizer_.arena()),
      aux_(program_, model.parameters()),
      qk_clip_(program_.query_keys(), model.parameters(), optimizer),
      arena_(backend.allocate(program_.arena_bytes())) {
  program_.program().reserve_host_memory();
  program_.bind_parameters(state.used());
  LAMINA_ASSERT(options_.in_backward == optimizer.in_backward);
  if (options_.in_backward && !options_.is_part())
    in_backward_ =
        std::make_unique<BackwardUpdates>(program_, state_, optimizer_, options_.clip_norm);
}

// The mean of a term is over all microbatches, so each contributes by its number of labels or
// pairs.
LossCounts TrainStep::count(std::span<const program::Microbatch> microbatches) const {
  std::int64_t items = 0, mtp_labels = 0;
  for (const program::Microbatch& batch : microbatches) {
    items += options_.task->count(batch, options_.shape);
    mtp_labels += decoder::count_mtp_labels(
        batch.labels, options_.features.segments ? batch.segments : nullptr, options_.shape.batch,
        options_.shape.tokens, model_.mtp_depth(), model_.options().mtp.chained);
  }
  const auto at_least_one = [](std::int64_t n) {
    return static_cast<double>(std::max<std::int64_t>(n, 1));
  };
  return {.items = at_least_one(items),
          .mtp_labels = at_least_one(mtp_labels),
          .microbatches = at_least_one(std::ssize(microbatches))};
}

StepResult TrainStep::gradients(std::span<const program::Microbatch> microbatches,
                                std::int64_t step) {
  const LossCounts counts = count(microbatches);
  add_microbatches(microbatches, counts, step);
  return result(microbatches, counts, step);
}

void TrainStep::add_microbatches(std::span<const program::Microbatch> microbatches,
                                 const LossCounts& counts, std::int64_t step,
                                 const AroundLast& last) {
  LAMINA_ASSERT(static_cast<std::int64_t>(microbatches.size()) == options_.microbatches);
  losses_.emplace(program_, weights_, counts);
  aux_.begin();
  if (in_backward_) in_backward_->begin(lr_, update_);
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    const auto run = [&] { run_microbatch(microbatches, i, step); };
    if (last && i + 1 == microbatches.size())
      last(run);
    else if (in_backward_)
      in_backward_->around(run);
    else
      run();
    if (i == 0)
      optimizer_.gradients().clear_later_slots(state_);
    else
      optimizer_.gradients().join_lists(state_);
    losses_->add();
    aux_.add();
  }
  if (in_backward_) in_backward_->read();
}

void TrainStep::add(const TrainStep& other) {
  losses_->add(*other.losses_);
  aux_.add(other.aux_);
}

StepResult TrainStep::result(std::span<const program::Microbatch> microbatches,
                             const LossCounts& counts, std::int64_t step) {
  StepResult result{.has_perplexity = options_.task->has_perplexity()};
  for (const program::Microbatch& batch : microbatches)
    result.num_labels +=
        program::count_labels(batch.labels, options_.shape.batch * options_.shape.tokens);
  result.terms = losses_->means();
  result.loss = result.mean_of("loss");
  result.total = total_loss(result.terms);
  result.aux_scalars = aux_.scalars();
  result.task_means = aux_.task_sums();
  for (AuxScalar& mean : result.task_means) mean.value /= counts.items;
  for (const LossMean& of : result.terms)
    if (of.term.report == decoder::LossReport::progress)
      result.task_means.push_back({of.term.name, of.mean});
  result.gradient_norm = optimizer_.gradient_norm(state_);
  if (!std::isfinite(result.total) || !std::isfinite(result.gradient_norm))
    fail(microbatches, step, result);
  return result;
}

void TrainStep::set_teacher(Teacher* teacher) {
  teacher_ = teacher;
  teacher_->bind(program_);
}

void TrainStep::run_microbatch(std::span<const program::Microbatch> microbatches, std::size_t i,
                               std::int64_t step) {
  const std::int64_t draw =
      step * options_.all_microbatches() + options_.first_microbatch + static_cast<std::int64_t>(i);
  program_.set(Input::seed, std::array{static_cast<std::int64_t>(options_.seed), draw});
  microbatches[i].bind(program_);
  if (teacher_) teacher_->run(microbatches[i]);
  // fail() runs the microbatches of other devices here, too.
  const bool adds = options_.microbatches > 1;
  if (i == 0 && adds) optimizer_.gradients().clear_sums(state_);
  if (i == 0 || !adds)
    program_.bind_gradients(state_.gradients(), state_.gradient_ids());
  else
    program_.bind_gradients(state_.more_gradients(), state_.more_gradient_ids());
  program_.run(*arena_);
}

// Runs the step once more, with the same results, watches each op, and throws NumericalError.
void TrainStep::fail(std::span<const program::Microbatch> microbatches, std::int64_t step,
                     const StepResult& result) {
  ErrorText text{fmt::format("step {}", step + 1), "", {}};
  auto bad = in_backward_ ? in_backward_->bad() : std::nullopt;
  if (!bad) bad = optimizer_.gradients().first_non_finite(state_);
  if (bad) {
    const decoder::Parameter& p = model_.parameters()[bad->parameter];
    text.what = fmt::format("the gradient of {}", bad_element_text(p, bad->at));
  } else {
    text.what = fmt::format("the loss is {}", without_sign_of_nan(result.total));
  }
  const std::string weight = non_finite_weight(model_.parameters(), state_);
  std::optional<NonFinite> origin;
  std::int64_t origin_microbatch = 0;
  bool found = false;
  for (std::size_t i = 0; i < microbatches.size() && !found; ++i) {
    NonFiniteFinder finder(program_, model_.parameters());
    run_microbatch(microbatches, i, step);
    found = finder.is_found();
    if (!finder.found() || (origin && !found)) continue;
    origin = finder.found();
    origin_microbatch = static_cast<std::int64_t>(i);
  }
  const int num_updated = in_backward_ ? in_backward_->num_updated() : 0;
  text.notes = {fmt::format(
      "loss {}, gradient norm {}; {}", without_sign_of_nan(result.loss),
      without_sign_of_nan(result.gradient_norm),
      num_updated == 0 ? "nothing was updated"
                       : fmt::format("{} parameters were updated in this backward pass, as "
                                     "optimizer.in_backward has it: continue from a checkpoint",
                                     num_updated))};
  if (!weight.empty()) text.notes.push_back("before this step the weight " + weight);
  if (origin) text.notes.push_back("the first such value comes from " + origin->text());
  NumericalError error(ExitCode::numerical, std::move(text));
  error.result = result;
  error.origin = std::move(origin);
  error.microbatch = origin_microbatch;
  error.weight = weight;
  throw error;
}

void TrainStep::update(StepResult& result, double lr, std::int64_t step) {
  result.lr = lr;
  update_like(*this, lr, step);
}

void TrainStep::update_like(const TrainStep& leader, double lr, std::int64_t step) {
  optimizer_.update(state_, lr,
                    leader.optimizer_.clip_scales(options_.clip_norm, options_.clip_each), step);
  leader.aux_.apply(changes_);
  qk_clip_.apply(changes_, leader.aux_.maxima(decoder::kMaxLogits));
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
