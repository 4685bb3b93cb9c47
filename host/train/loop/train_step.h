// One training step: microbatches forward and backward, then the update.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/sections.h"
#include "decoder/model.h"
#include "program/bound_program.h"
#include "program/microbatch.h"
#include "train/loop/non_finite.h"
#include "train/loop/remat_policies.h"
#include "train/loop/step_losses.h"
#include "train/loop/task.h"
#include "train/metrics/aux_values.h"
#include "train/metrics/metrics_record.h"
#include "train/optimizer/backward_updates.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/qk_clip.h"
#include "train/optimizer/train_state.h"
#include "train/tasks/teacher.h"

namespace lamina::train {

struct StepResult {
  double loss = 0;              // mean over the items of the whole step: labels, or pairs
  double total = 0;             // the loss with all terms: the sum of weight * mean over `terms`
  std::vector<LossMean> terms;  // of the loss
  bool has_perplexity = true;   // e to the power of `loss` is one
  double gradient_norm = 0;     // before clipping
  double lr = 0;                // of the schedule, also if the step is skipped
  bool skipped = false;         // as a spike: nothing was updated
  std::int64_t num_labels = 0;  // counted
  std::vector<AuxScalar> aux_scalars;  // of the layers: losses by name, metrics per layer
  std::vector<AuxScalar> task_means;   // of the task, over what it counts

  // The mean of a term of the loss; 0 if the step has no such term.
  double mean_of(std::string_view term) const;
  // Adds "train/loss" and so on.
  void write(MetricsRecord& record) const;
};

// A NaN or infinity was found; nothing was updated.
class NumericalError : public UserError {
 public:
  using UserError::UserError;

  StepResult result;                // the parts that are known
  std::optional<NonFinite> origin;  // where it began; nothing if the results of every op are finite
  std::int64_t microbatch = 0;      // of the step, in which it began
  std::string weight;               // a weight that was not finite before, and where; or ""
};

// All losses that the model has. `segments`: rows contain several documents.
inline decoder::GraphFeatures all_losses(bool segments = true) {
  return {.segments = segments, .training = true, .aux = true, .mtp = true};
}

// Returns the first weight that is not finite, as bad_element_text(); "" if all are finite.
std::string non_finite_weight(const decoder::ParameterTable& parameters, const TrainState& state);

struct TrainStepOptions {
  decoder::GraphShape shape = {};  // of a microbatch
  decoder::GraphFeatures features = all_losses();
  std::shared_ptr<const Task> task = next_token_task();
  std::int64_t microbatches = 1;
  // The part of a step that runs here, if several devices share it: the number of its first
  // microbatch, and of all microbatches of the step; 0: it is the whole step.
  std::int64_t first_microbatch = 0, step_microbatches = 0;
  std::int64_t all_microbatches() const {
    return step_microbatches > 0 ? step_microbatches : microbatches;
  }
  bool is_part() const { return all_microbatches() > microbatches; }
  std::string remat = "none";
  RematTags remat_tags = {};  // of the policy custom
  double z_loss = 0;          // weight
  double label_smoothing = 0;
  double clip_norm = 0;    // 0 = none
  bool clip_each = false;  // the norm of each parameter's gradient, not of all
  double ema = 0;          // decay of the state's averages
  std::uint64_t seed = 0;  // of dropout
  // optimizer.in_backward: layers are updated during the backward pass. REQUIRES: one microbatch,
  // and no clip_norm without clip_each.
  bool in_backward = false;
};

// Returns the policy of `options` for the backward pass. Throws UserError (exit 2) at the place of
// the key, also for a tag that no layer of the model names.
RematPolicy remat_policy(const TrainStepOptions& options, const decoder::Model& model,
                         const config::KeyPlace& place = {});

// Returns the teacher of the task for the microbatches of a step. REQUIRES: the task has one.
std::unique_ptr<Teacher> make_teacher(const TeacherModel& model, const TrainStepOptions& options,
                                      const Backend& backend);

// Loss and gradients of a microbatch; gradients of tables are lists if possible. With in_backward
// also the updates of layers, unless several devices share the step.
decoder::ModelGraph step_graph(const decoder::Model& model, const TrainStepOptions& options);

// Returns how the gradients of step_graph() are kept.
GradientLists step_lists(const decoder::ModelGraph& graph, const decoder::Model& model,
                         const TrainStepOptions& options);

// Throws UserError (exit 2) for a setting of the optimizer that has no effect on the model: lazy
// updates without a list, QK-clip without latent attention. `place` may be empty.
void check_effects(const config::OptimizerSection& optimizer, const decoder::ModelGraph& graph,
                   const GradientLists& lists, const config::KeyPlace& place);

class TrainStep {
 public:
  // Dense gradients for every table; used by tests and `lamina verify`.
  TrainStep(const decoder::Model& model, TrainState& state, const TrainStepOptions& options,
            const config::OptimizerSection& optimizer, const Backend& backend);
  // With the gradients of `graph`, a step_graph(). REQUIRES: `state` has its step_lists().
  TrainStep(const decoder::Model& model, decoder::ModelGraph graph, TrainState& state,
            const TrainStepOptions& options, const config::OptimizerSection& optimizer,
            const Backend& backend);

  // Gradients of the mean loss over all microbatches together, clipped, then one update. `step`
  // counts from 0. Throws NumericalError (exit 3) before anything is changed (with
  // optimizer.in_backward, before the bad tensor is), naming the step and the first bad tensor.
  StepResult run(std::span<const program::Microbatch> microbatches, double lr, std::int64_t step);

  // Sets the learning rate and the update's number for gradients() with optimizer.in_backward.
  void set_update(double lr, std::int64_t step) {
    lr_ = lr;
    update_ = step;
  }
  void set_update_like(const TrainStep& leader) { set_update(leader.lr_, leader.update_); }
  // As run() without the update: gradients stay in the state. With optimizer.in_backward,
  // parameters whose gradients share memory are updated here, and update() does the rest.
  StepResult gradients(std::span<const program::Microbatch> microbatches, std::int64_t step);
  void update(StepResult& result, double lr, std::int64_t step);

  // The parts of gradients(), for a step that several devices share. `counts` are count() of all
  // microbatches; add_microbatches() runs the part of this device, and calls `last` around the run
  // of its last one; add() takes the losses of another device; result() computes the norm of the
  // gradients, which must be the gradients of the whole step, from all its microbatches.
  LossCounts count(std::span<const program::Microbatch> microbatches) const;
  using AroundLast = std::function<void(const std::function<void()>& run)>;
  void add_microbatches(std::span<const program::Microbatch> microbatches, const LossCounts& counts,
                        std::int64_t step, const AroundLast& last = {});
  void add(const TrainStep& other);
  StepResult result(std::span<const program::Microbatch> microbatches, const LossCounts& counts,
                    std::int64_t step);
  // A part of update(), likewise: makes the same update as another device, whose gradients have the
  // same bits.
  void update_like(const TrainStep& leader, double lr, std::int64_t step);
  GradientTensors& gradient_tensors() { return optimizer_.gradients(); }
  Optimizer& optimizer() { return optimizer_; }
  // Sets the updates of layers of a step that several devices share.
  void set_backward_updates(std::unique_ptr<BackwardUpdates> updates) {
    in_backward_ = std::move(updates);
  }

  // Sets the teacher, which runs before each microbatch. REQUIRES: it outlives this.
  void set_teacher(Teacher* teacher);

  // Sets the trace to which runs add their events; null: none.
  void set_trace(Trace* trace) {
    program_.program().set_trace(trace);
    optimizer_.set_trace(trace);
  }

  std::size_t arena_bytes() const { return arena_->bytes(); }
  // See Optimizer::update_bytes().
  std::size_t update_bytes() {
    return optimizer_.update_bytes(state_.lists(), options_.shape.dtype);
  }
  program::BoundProgram& program() { return program_; }

 private:
  void run_microbatch(std::span<const program::Microbatch> microbatches, std::size_t i,
                      std::int64_t step);
  [[noreturn]] void fail(std::span<const program::Microbatch> microbatches, std::int64_t step,
                         const StepResult& result);

  const decoder::Model& model_;
  TrainState& state_;
  TrainStepOptions options_;
  LossWeights weights_;
  program::BoundProgram program_;
  Optimizer optimizer_;
  WeightChanges changes_;
  AuxValues aux_;
  QkClip qk_clip_;
  std::unique_ptr<Buffer> arena_;
  Teacher* teacher_ = nullptr;
  std::unique_ptr<BackwardUpdates> in_backward_;
  std::optional<StepLosses> losses_;  // of the step under way
  double lr_ = 0;
  std::int64_t update_ = 0;
};

}  // namespace lamina::train
