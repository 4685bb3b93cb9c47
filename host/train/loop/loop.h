// The training loop: data in, steps, validation, checkpoints, metrics; stops and goes on to the
// bit.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/sections.h"
#include "core/workers.h"
#include "data/dataset.h"
#include "decoder/model.h"
#include "text/tokenizer.h"
#include "train/checkpoint/checkpoint_saver.h"
#include "train/loop/eval_step.h"
#include "train/loop/start_weights.h"
#include "train/loop/train_step.h"
#include "train/metrics/metrics_file.h"
#include "train/metrics/tensorboard_file.h"
#include "train/tasks/reference.h"

namespace lamina::train {

// A prompt and what the model goes on with.
struct Sample {
  std::string prompt, text;
};

// What the loop tells while it runs. [the loop's thread]
struct LoopEvents {
  struct Step {
    StepResult result;
    std::int64_t step = 0;  // counted from 1
    std::int64_t num_steps = 0;
    double seconds = 0;
  };
  struct Validation {
    std::int64_t step = 0;
    double loss = 0;
    std::vector<double> mtp_acceptance;  // one per depth of multi-token prediction
    std::vector<AuxScalar> task_means = {};
  };
  std::function<void(std::int64_t step)> begin_step;  // counted from 1
  std::function<void(const Step&)> step;
  std::function<void(const Validation&)> validation;
  // Asked for as train.sample_every_steps says; the parameters as programs read them, one pointer
  // each, which are only read.
  std::function<std::vector<Sample>(std::span<const ConstTensorRef> used)> sample;
  SaveEvents save;
  // Asked between steps: stop after saving; save and go on.
  std::function<bool()> should_stop;
  std::function<bool()> should_save;
};

struct LoopOptions {
  config::TrainSection train;
  config::OptimizerSection optimizer;
  config::ScheduleSection schedule;
  config::CheckpointSection checkpoint;
  std::int64_t sequence_length = 1;
  std::uint64_t seed = 0;
  std::shared_ptr<const Task> task = next_token_task();
  std::string reference_folder = {};  // where a Reference is kept for other runs; "": nowhere
  std::string out;                    // the run directory
  config::KeyPlace place = {};        // of keys, for messages

  TrainStepOptions step() const;
};

struct LoopInputs {
  const LoopOptions& options;
  const decoder::Model& model;
  const text::Tokenizer& tokenizer;
  const data::Dataset& train;
  const data::Dataset* validation;  // may be null
  std::string data_fingerprint;
  std::string run_file;  // texts for checkpoints
  std::string model_file;
  const TeacherModel* teacher = nullptr;      // of a task that has one
  const StartWeights* start = nullptr;        // train.from; null: fresh weights, or a checkpoint's
  std::span<const SideFile> side_files = {};  // see CheckpointContents
  bool resumes = false;                       // weights stay 0 until resume() reads them
  Workers workers = {};                       // to make and to read weights with
  // Asked before each write by name; throws UserError where the run directory is another by now.
  // [any thread]
  std::function<void()> guard = {};
};

struct LoopResult {
  Progress progress;
  bool stopped = false;  // asked to stop before the last step; a checkpoint was written
  double last_loss = 0;
  std::optional<double> validation_loss;
};

class Loop {
 public:
  // Throws UserError (exit 2) for lazy updates of a model that has nothing to update so.
  Loop(const LoopInputs& inputs, const Backend& backend);

  // Goes on from a checkpoint of the same run. Throws UserError (exit 5) when it was made with
  // other data; as load_checkpoint(): after io::Damaged another one may be tried.
  void resume(const std::string& checkpoint);

  // Where the task compares with the start and no checkpoint was resumed: finds the Reference in
  // reference_folder, or computes it. run() does so unless it was done. `between` as
  // log_probabilities() has it.
  void prepare(const std::function<void()>& between = {});

  // Runs to the last step. Throws NumericalError before anything is updated, for a validation loss
  // that is not finite, and in place of a checkpoint with such weights. A checkpoint or a
  // record of metrics that cannot be written is a warning and is tried again; only when the state
  // at the end (or at the stop) cannot be saved is that a DeviceError, exit 4.
  LoopResult run(const LoopEvents& events);

  // Bytes of parameters, moments and gradients; of temporaries of a step; of all temporaries, with
  // those of updates, of validation and of a teacher; of copies while a checkpoint is written, at
  // most.
  std::size_t state_bytes() const { return state_.bytes(); }
  std::size_t arena_bytes() const { return step_.arena_bytes(); }
  std::size_t temporary_bytes() {
    return arena_bytes() + step_.update_bytes() + (eval_ ? eval_->arena_bytes() : 0) +
           (teacher_ ? teacher_->temporary_bytes() : 0);
  }
  std::size_t checkpoint_copy_bytes() const;
  const TrainState& state() const { return state_; }
  TrainStep& step() { return step_; }
  const Progress& progress() const { return progress_; }
  // LoopInputs::guard.
  void check_directory() const {
    if (inputs_.guard) inputs_.guard();
  }

 private:
  Loop(const LoopInputs& inputs, decoder::ModelGraph graph, const Backend& backend);
  void begin_magnitudes();
  StepResult train_one_step();
  StepResult gradients(std::span<const program::Microbatch> microbatches);
  // Of the step under way, see train/bad_step.h. `error`: null for a spike.
  std::string write_bad_step(const StepResult& result, const NumericalError* error) const;
  EvalSums validate();
  void write_validation(const EvalSums& sums, const LoopEvents& events);
  // From train.from, or fresh ones.
  void make_weights();
  void read_reference(const std::string& checkpoint);
  void compare_with(Reference reference);
  const float* gather_reference(const data::Batch& batch, const std::vector<float>& of);
  void write(const MetricsRecord& record);
  void write_samples(const LoopEvents& events);
  std::function<void()> sync_records() const;

  LoopInputs inputs_;
  const LoopOptions& options_;
  const Backend& backend_;
  TrainState state_;
  TrainStep step_;
  std::optional<EvalStep> eval_;
  std::optional<Teacher> teacher_;
  Progress progress_;
  data::Batch batch_;
  double data_seconds_ = 0;  // that it took to be filled
  std::optional<Reference> reference_;
  std::vector<SideFile> side_files_;  // with it
  std::vector<float> batch_reference_;
  std::optional<MetricsFile> metrics_;          // while it runs
  std::optional<TensorboardFile> tensorboard_;  // likewise, where asked for
  CheckpointSaver saver_;
};

}  // namespace lamina::train
