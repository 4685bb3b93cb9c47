// The training loop: reads data, runs steps and validation, writes metrics and checkpoints. A run
// that is resumed continues to the same bits.
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
#include "train/parallel/replicas.h"
#include "train/tasks/reference.h"

namespace lamina::train {

// A prompt, and the text with which the model continues it.
struct Sample {
  std::string prompt, text;
};

// Calls of the loop while it runs. [the loop's thread]
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
    std::vector<double> mtp_acceptance;  // see EvalSums
    std::vector<AuxScalar> task_means = {};
  };
  std::function<void(std::int64_t step)> begin_step;  // counted from 1
  std::function<void(const Step&)> step;
  std::function<void(const Validation&)> validation;
  // Called as train.sample_every_steps says, with the parameters as programs read them, one pointer
  // each, which must not be written. Returns null if it was asked to stop before the last sample
  // was complete: the run that resumes calls it again for the same step.
  std::function<std::optional<std::vector<Sample>>(std::span<const ConstTensorRef> used)> sample;
  SaveEvents save;
  // Called between steps. should_stop: save, then stop. should_save: save, then continue.
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
  int num_ranks = 1;                  // devices that share each step

  // The part of a step that the first device runs.
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
  std::span<const TeacherModel> teachers = {};  // for a task that has one: one per device
  const StartWeights* start = nullptr;        // train.from; null: fresh weights, or a checkpoint's
  std::span<const SideFile> side_files = {};  // see CheckpointContents
  bool resumes = false;                       // weights stay 0 until resume() reads them
  Workers workers = {};                       // that make and read weights
  // Called before each write by name; throws UserError if the run directory was replaced.
  // [any thread]
  std::function<void()> guard = {};
  CommunicatorGroup* group = nullptr;  // of several devices, LoopOptions::num_ranks; null: one
};

// Throws UserError (exit 5) if a checkpoint with this progress was made with other data.
void check_data(const std::string& checkpoint, const Progress& then,
                const std::string& fingerprint);

struct LoopResult {
  Progress progress;
  // Asked to stop before the last step, or before its samples were complete; a checkpoint was
  // written.
  bool stopped = false;
  bool sampled = false;  // samples were written
  double last_loss = 0;
  std::optional<double> validation_loss;
};

class Loop {
 public:
  // `backend` is the backend of rank 0. Throws UserError (exit 2) if the model has nothing to which
  // lazy updates or QK-clip apply.
  Loop(const LoopInputs& inputs, const Backend& backend);

  // Continues from a checkpoint of the same run. Throws UserError (exit 5) if it was made with
  // other data, and as load_checkpoint() does: after io::Damaged another one may be tried.
  void resume(const std::string& checkpoint);

  // If the task compares with the start and no checkpoint was resumed: finds the Reference in
  // reference_folder, or computes it. run() calls it, too; a second call does nothing. `between` as
  // in log_probabilities().
  void prepare(const std::function<void()>& between = {});

  // Runs to the last step. Throws NumericalError for a loss or gradient that is not finite, before
  // anything is updated; for such a validation loss; and instead of writing a checkpoint with such
  // weights. A checkpoint or a record of metrics that cannot be written is a warning and is tried
  // again. If the state at the end (or at the stop) cannot be saved, throws DeviceError (exit 4).
  LoopResult run(const LoopEvents& events);

  // Bytes of each device: of parameters, moments and gradients; of the temporaries of a step; of
  // all temporaries, including updates, validation and a teacher; and, at most, of copies while a
  // checkpoint is written.
  std::size_t state_bytes() const { return state_.bytes(); }
  std::size_t arena_bytes() const { return step_.arena_bytes(); }
  std::size_t temporary_bytes() {
    return arena_bytes() + step_.update_bytes() + (eval_ ? eval_->arena_bytes() : 0) +
           (teacher_ ? teacher_->temporary_bytes() : 0);
  }
  // Bytes in pinned host memory: of the state, and of values between the passes of a step.
  std::size_t offloaded_state_bytes() const { return state_.offloaded_bytes(); }
  std::size_t offloaded_value_bytes() { return step_.program().program().host_bytes(); }
  // False if the device computes in host memory, so that nothing is offloaded.
  bool has_host_memory() const { return !backend_.reaches(MemoryKind::pinned); }
  std::size_t checkpoint_copy_bytes() const;
  const TrainState& state() const { return state_; }
  TrainStep& step() { return step_; }
  // Null on one device.
  const Replicas* replicas() const { return replicas_ ? &*replicas_ : nullptr; }
  const Progress& progress() const { return progress_; }
  // Returns how many rows a validation has: all that are held out, or the first train.eval_batches
  // batches of them.
  std::uint64_t num_validation_rows() const;
  // Calls LoopInputs::guard, then renew() of the files of metrics.
  void check_directory();

 private:
  Loop(const LoopInputs& inputs, decoder::ModelGraph graph, const Backend& backend);
  void begin_magnitudes();
  StepResult train_one_step();
  StepResult gradients(std::span<const program::Microbatch> microbatches);
  // Writes the file about the step under way, loop/bad_step.h. `error`: null for a spike.
  std::string write_bad_step(const StepResult& result, const NumericalError* error);
  EvalSums validate();
  void write_validation(const EvalSums& sums, const LoopEvents& events);
  // Reads the weights from train.from, or makes fresh ones.
  void make_weights();
  void read_reference(const std::string& checkpoint);
  void compare_with(Reference reference);
  const float* gather_reference(const data::Batch& batch, const std::vector<float>& of);
  void write(const MetricsRecord& record);
  // Writes the samples of the current step; if they are cut, they stay due. Returns whether there
  // are any.
  bool write_samples(const LoopEvents& events);
  std::function<void()> sync_records() const;

  LoopInputs inputs_;
  const LoopOptions& options_;
  const Backend& backend_;
  TrainState state_;
  TrainStep step_;
  std::optional<Replicas> replicas_;
  std::optional<EvalStep> eval_;
  std::unique_ptr<Teacher> teacher_;
  Progress progress_;
  data::Batch batch_;
  double data_seconds_ = 0;  // that filling batch_ took
  std::optional<Reference> reference_;
  std::vector<SideFile> side_files_;  // with reference_
  std::vector<float> batch_reference_;
  std::optional<MetricsFile> metrics_;          // while it runs
  std::optional<TensorboardFile> tensorboard_;  // likewise, if asked for
  CheckpointSaver saver_;
};

}  // namespace lamina::train
