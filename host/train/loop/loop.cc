#include "train/loop/loop.h"

#include <cmath>

#include "core/error.h"
#include "core/free_memory.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "runtime/host_access.h"
#include "train/checkpoint/snapshot.h"
#include "train/loop/bad_step.h"
#include "train/loop/non_finite.h"
#include "train/loop/run_directory.h"
#include "train/loop/schedule.h"
#include "weights/publish/peft.h"
#include "weights/weights.h"

namespace lamina::train {
namespace {

// A run that diverges with train.skip_spikes may skip any number of steps.
constexpr std::int64_t kMaxSpikeFiles = 100;

// `reference`: log-probabilities of all rows, or null.
program::Microbatch rows_of(const data::Batch& batch, std::int64_t first_row,
                            const float* reference) {
  std::size_t at = static_cast<std::size_t>(first_row * batch.tokens_per_row);
  if (reference)
    reference += static_cast<std::size_t>(first_row) * data::max_segments(batch.tokens_per_row);
  return {batch.tokens.data() + at, batch.labels.data() + at, batch.positions.data() + at,
          batch.segment_ids.data() + at, reference};
}

// Returns the gradients that a run keeps as lists. Throws as check_effects().
GradientLists lists_of(const LoopInputs& inputs, const decoder::ModelGraph& graph) {
  GradientLists lists = step_lists(graph, inputs.model, inputs.options.step());
  check_effects(inputs.options.optimizer, graph, lists, inputs.options.place);
  return lists;
}

}  // namespace

TrainStepOptions LoopOptions::step() const {
  const std::int64_t microbatches = train.batch_size / train.microbatch_size;
  TrainStepOptions options{.shape = {train.microbatch_size, sequence_length, train.dtype},
                           .microbatches = microbatches / num_ranks,
                           .step_microbatches = microbatches,
                           .remat = train.remat,
                           .remat_tags = train.remat_tags,
                           .z_loss = train.z_loss,
                           .label_smoothing = train.label_smoothing,
                           .clip_norm = train.clip_norm,
                           .clip_each = train.clip_each,
                           .ema = train.ema,
                           .seed = seed,
                           .in_backward = optimizer.in_backward};
  options.features.layer_metrics = train.layer_metrics;
  options.features.max_logits = optimizer.qk_clip > 0;
  options.task = task;
  return options;
}

Loop::Loop(const LoopInputs& inputs, const Backend& backend)
    : Loop(inputs, step_graph(inputs.model, inputs.options.step()), backend) {}

Loop::Loop(const LoopInputs& inputs, decoder::ModelGraph graph, const Backend& backend)
    : inputs_(inputs),
      options_(inputs.options),
      backend_(backend),
      state_(inputs.model.parameters(), options_.train.dtype, options_.step().microbatches > 1,
             backend, lists_of(inputs, graph), options_.optimizer, kept_average(options_.train)),
      step_(inputs.model, std::move(graph), state_, options_.step(), options_.optimizer, backend),
      saver_({inputs_.model, state_, inputs_.tokenizer, inputs_.run_file, inputs_.model_file,
              inputs_.side_files, nullptr, inputs_.guard},
             state_, options_.checkpoint, options_.out, options_.train.steps) {
  if (inputs.group)
    replicas_.emplace(*inputs.group,
                      Replicas::Setup{inputs.model, options_.optimizer, options_.step(),
                                      kept_average(options_.train), inputs.teachers},
                      state_, step_);
  if (!inputs.resumes) make_weights();
  inputs_.start = nullptr;  // it was read, and may be destroyed
  progress_.data_fingerprint = inputs.data_fingerprint;
  if (inputs.validation)
    eval_.emplace(inputs.model, options_.train.microbatch_size, options_.sequence_length,
                  options_.train.dtype, true, backend, EvalOutputs{.task = options_.task});
  if (!options_.task->teacher().any) return;
  LAMINA_ASSERT(!inputs.teachers.empty());
  teacher_ = make_teacher(inputs.teachers.front(), options_.step(), backend);
  step_.set_teacher(teacher_.get());
}

void Loop::make_weights() {
  const decoder::ParameterTable& parameters = inputs_.model.parameters();
  std::vector<std::string> bad(parameters.all().size());  // values of train.from, in words
  work_on_all(inputs_.workers, std::ssize(parameters.all()), [&](std::int64_t parameter) {
    const int i = static_cast<int>(parameter);
    const TensorRef& master = state_.masters()[static_cast<std::size_t>(i)];
    if (!master) {
      LAMINA_ASSERT(inputs_.start != nullptr);
      write_tensor<std::byte>(state_.queue(), state_.kept(i), [&](std::span<std::byte> out) {
        const formats::BlockFormat* storage = state_.kept(i).type().storage;
        if (storage && inputs_.start->block_format(i) == storage)
          inputs_.start->read_blocks(i, out.data());
        else if (storage)
          inputs_.start->read_rounded(i, *storage, out.data());
        else
          inputs_.start->read_as(i, state_.kept_dtype(i), out.data());
      });
      return;
    }
    write_tensor<float>(state_.queue(), master, [&](std::span<float> values) {
      if (!inputs_.start || !inputs_.start->has(i))
        return weights::initialise(parameters[i], options_.seed, values);
      inputs_.start->read(i, values);
      if (const auto found = first_non_finite(values))
        bad[static_cast<std::size_t>(i)] = bad_element_text(parameters[i], *found);
    });
    state_.refresh_copy(i);
  });
  if (const auto first = std::ranges::find_if_not(bad, &std::string::empty); first != bad.end())
    log::warning("{}: the weight {}; no update mends it, so train from other weights",
                 inputs_.start->files().path(), *first);
  begin_magnitudes();
  state_.begin_averages();
}

// Sets DoRA's magnitudes to the lengths of the rows of its matrices, which were made before.
void Loop::begin_magnitudes() {
  const decoder::ParameterTable& parameters = inputs_.model.parameters();
  std::vector<float> latest;
  const auto values = [&](int parameter) -> std::span<const float> {
    return latest = state_.values(parameter);
  };
  for (int i = 0; i < std::ssize(parameters.all()); ++i)
    if (parameters[i].name.ends_with(decoder::kAdapterMagnitude) &&
        !(inputs_.start && inputs_.start->has(i)))
      write_tensor<float>(
          state_.queue(), state_.masters()[static_cast<std::size_t>(i)],
          [&](std::span<float> out) { weights::start_magnitudes(inputs_.model, i, values, out); });
}

std::size_t Loop::checkpoint_copy_bytes() const {
  if (!options_.checkpoint.async) return 0;
  return max_snapshot_bytes(inputs_.model.parameters(), options_.optimizer,
                            kept_average(options_.train));
}

void check_data(const std::string& checkpoint, const Progress& then,
                const std::string& fingerprint) {
  if (then.data_fingerprint == fingerprint) return;
  throw UserError(ExitCode::data,
                  {checkpoint,
                   "was made with other data than data.train and data.validation give now",
                   {"restore the files, or start a new run with another run.out"}});
}

void Loop::resume(const std::string& checkpoint) {
  Progress loaded = load_checkpoint(checkpoint, inputs_.model, state_, inputs_.workers);
  check_data(checkpoint, loaded, inputs_.data_fingerprint);
  read_reference(checkpoint);
  progress_ = loaded;
  if (is_checkpoint_of(options_.out, checkpoint)) saver_.loaded(loaded);
}

StepResult Loop::gradients(std::span<const program::Microbatch> microbatches) {
  try {
    return replicas_ ? replicas_->gradients(microbatches, progress_.step)
                     : step_.gradients(microbatches, progress_.step);
  } catch (NumericalError& error) {
    ErrorText text = error.text();
    text.notes.emplace_back(options_.train.dtype == DType::f32
                                ? "try a lower optimizer.lr, or a longer schedule.warmup_steps"
                                : "try a lower optimizer.lr, a longer schedule.warmup_steps, or "
                                  "train.dtype = \"float32\"");
    if (const std::string path = write_bad_step(error.result, &error); !path.empty())
      text.notes.push_back(fmt::format("`lamina report {}` shows the rows that were read, from {}",
                                       options_.out, path));
    throw NumericalError(error.code(), std::move(text));
  }
}

void Loop::check_directory() {
  if (inputs_.guard) inputs_.guard();
  if (metrics_) metrics_->renew();
  if (tensorboard_) tensorboard_->renew(progress_.step);
}

std::string Loop::write_bad_step(const StepResult& result, const NumericalError* error) {
  try {
    check_directory();
  } catch (const Error& moved) {
    log::warning("the file about step {} is not written: {}", progress_.step + 1, moved.what());
    return "";
  }
  return train::write_bad_step(options_.out,
                               {.step = progress_.step + 1,
                                .result = result,
                                .error = error,
                                .microbatch_size = options_.train.microbatch_size,
                                .cursor = progress_.cursor,
                                .rows_per_epoch = inputs_.train.num_rows(),
                                .batch = batch_},
                               inputs_.tokenizer);
}

StepResult Loop::train_one_step() {
  data::DataCursor cursor = progress_.cursor;
  const Stopwatch watch;
  inputs_.train.next(cursor, options_.train.batch_size, batch_);
  data_seconds_ = watch.seconds();
  const float* reference = reference_ ? gather_reference(batch_, reference_->train) : nullptr;
  std::vector<program::Microbatch> microbatches;
  for (std::int64_t row = 0; row < options_.train.batch_size; row += options_.train.microbatch_size)
    microbatches.push_back(rows_of(batch_, row, reference));
  // Skipped steps do not count for the optimizer.
  SpikeHistory& spikes = progress_.spikes;
  const std::int64_t update = progress_.step - spikes.num_skipped;
  const double lr =
      learning_rate(options_.schedule, options_.optimizer.lr, update, options_.train.steps);
  const double factor = options_.train.skip_spikes;
  const std::int64_t window = options_.train.spike_window;
  step_.set_update(lr, update);
  StepResult result = gradients(microbatches);
  result.lr = lr;
  result.skipped =
      factor > 0 && is_spike(spikes, result.total, result.gradient_norm, factor, window);
  if (factor > 0) remember(spikes, result.total, result.gradient_norm, window);
  if (result.skipped) {
    if (++spikes.num_skipped <= kMaxSpikeFiles) write_bad_step(result, nullptr);
  } else if (replicas_) {
    replicas_->update(result, lr, update);
  } else {
    step_.update(result, lr, update);
  }
  progress_.cursor = cursor;
  progress_.num_tokens += static_cast<std::uint64_t>(result.num_labels);
  ++progress_.step;
  progress_.validation_loss.reset();
  return result;
}

std::uint64_t Loop::num_validation_rows() const {
  const std::uint64_t all = inputs_.validation ? inputs_.validation->num_rows() : 0;
  if (!options_.train.eval_batches) return all;
  return std::min(all, static_cast<std::uint64_t>(*options_.train.eval_batches) *
                           static_cast<std::uint64_t>(options_.train.batch_size));
}

EvalSums Loop::validate() {
  const data::Dataset& held_out = *inputs_.validation;
  EvalRows rows{.num_rows = num_validation_rows(),
                .read = [&](std::uint64_t first, std::int64_t count, data::Batch& batch) {
                  held_out.read({.index = first}, 0, count, batch);
                }};
  if (reference_)
    rows.reference = [&](const data::Batch& batch) {
      return gather_reference(batch, reference_->validation);
    };
  return evaluate_rows(*eval_, rows,
                       kept_average(options_.train) == KeptAverage::validated
                           ? state_.used_averages()
                           : state_.used());
}

void Loop::write_validation(const EvalSums& sums, const LoopEvents& events) {
  const double loss = sums.mean_loss();
  if (!std::isfinite(loss)) {
    ErrorText text{fmt::format("step {}", progress_.step),
                   fmt::format("the validation loss is {}", without_sign_of_nan(loss)),
                   {}};
    if (const std::string weight = non_finite_weight(inputs_.model.parameters(), state_);
        !weight.empty())
      text.notes.push_back("after the update the weight " + weight);
    text.notes.emplace_back("no checkpoint of this step is written; earlier ones stay");
    text.notes.emplace_back(
        "try a lower optimizer.lr, a longer schedule.warmup_steps, or a larger optimizer.eps");
    throw NumericalError(ExitCode::numerical, std::move(text));
  }
  progress_.validation_loss = loss;
  progress_.validation_rows = num_validation_rows();
  MetricsRecord eval(progress_.step);
  eval.add("eval/loss", loss);
  if (options_.task->has_perplexity()) eval.add("eval/ppl", std::exp(loss));
  const std::vector<AuxScalar> task_means = sums.task_means();
  for (const AuxScalar& number : task_means) eval.add("eval/" + number.name, number.value);
  const std::vector<double> acceptance = sums.mtp_acceptance();
  for (std::size_t j = 0; j < acceptance.size(); ++j)
    eval.add(fmt::format("eval/mtp_acceptance_{}", j + 1), acceptance[j]);
  write(eval);
  if (events.validation) events.validation({progress_.step, loss, acceptance, task_means});
}

// A file that was replaced since the last record would not get this one.
void Loop::write(const MetricsRecord& record) {
  check_directory();
  metrics_->write(record.json());
  if (tensorboard_) tensorboard_->write(record);
}

bool Loop::write_samples(const LoopEvents& events) {
  const std::optional<std::vector<Sample>> samples = events.sample(state_.used());
  progress_.samples_due = !samples;
  if (!samples || samples->empty()) return false;
  JsonWriter line;
  line.begin_object().key("step").value(progress_.step).key("samples").begin_array();
  for (const Sample& sample : *samples)
    line.begin_object()
        .key("prompt")
        .value(sample.prompt)
        .key("text")
        .value(sample.text)
        .end_object();
  check_directory();
  metrics_->write(line.end_array().end_object());
  return true;
}

std::function<void()> Loop::sync_records() const {
  return [metrics = metrics_->sync_later(),
          tensorboard = tensorboard_ ? tensorboard_->sync_later() : [] {}] {
    metrics();
    tensorboard();
  };
}

LoopResult Loop::run(const LoopEvents& events) {
  prepare();
  if (replicas_) replicas_->copy_state();
  return_free_memory();
  metrics_.emplace(options_.out, progress_.step);
  if (options_.train.tensorboard && progress_.step < options_.train.steps)
    tensorboard_.emplace(options_.out, progress_.step);
  LoopResult out;
  // A checkpoint is not written again once its samples are.
  progress_.samples_due = progress_.samples_due && events.sample && !metrics_->had_samples();
  if (progress_.samples_due) out.sampled = write_samples(events);
  while (progress_.step < options_.train.steps) {
    if (events.should_stop && events.should_stop()) {
      out.stopped = true;
      break;
    }
    if (events.begin_step) events.begin_step(progress_.step + 1);
    const Stopwatch watch;
    StepResult result = train_one_step();
    const double seconds = watch.seconds();
    out.last_loss = result.loss;

    MetricsRecord record(progress_.step);
    result.write(record);
    if (options_.train.skip_spikes > 0)
      record.add("train/skipped_steps", static_cast<std::uint64_t>(progress_.spikes.num_skipped));
    record.add("train/tokens", progress_.num_tokens);
    record.add("perf/step_seconds", seconds);
    record.add("perf/data_seconds", data_seconds_);
    record.add("perf/tokens_per_second", static_cast<double>(result.num_labels) / seconds);
    write(record);
    if (events.step) events.step({result, progress_.step, options_.train.steps, seconds});

    bool last = progress_.step == options_.train.steps;
    std::int64_t every = options_.train.eval_every_steps;
    if (eval_ && (last || (every > 0 && progress_.step % every == 0))) {
      write_validation(validate(), events);
      out.validation_loss = progress_.validation_loss;
    }
    const std::int64_t sample_every = options_.train.sample_every_steps;
    if (events.sample && sample_every > 0 && (last || progress_.step % sample_every == 0))
      out.sampled |= write_samples(events);
    check_directory();
    saver_.look(progress_.step, events.save);
    const bool asked = events.should_save && events.should_save();
    if (!last && (asked || saver_.is_due(progress_)))
      saver_.save(progress_, sync_records(), events.save);
  }
  check_directory();
  metrics_->finish();
  if (tensorboard_) tensorboard_->finish();
  saver_.save_last(progress_, sync_records(), events.save);
  out.progress = progress_;
  out.stopped |= progress_.samples_due;
  return out;
}

}  // namespace lamina::train
