// One training step: microbatches forward and backward, then the update.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "autodiff/remat.h"
#include "config/run_config.h"
#include "decoder/bound_program.h"
#include "decoder/model.h"
#include "train/microbatch.h"
#include "train/optimizer.h"
#include "train/sown_values.h"
#include "train/train_state.h"

namespace lamina::train {

struct StepResult {
  double loss = 0;           // mean over the counted labels of the whole step
  double total = 0;          // what is minimised: with the losses below, times their weights
  double aux_loss = 0;       // of the layers, with their weights; mean over microbatches
  double mtp_loss = 0;       // of multi-token prediction, with its weights; mean over its labels
  double z_loss = 0;         // mean squared log-sum-exp
  double gradient_norm = 0;  // before clipping
  double lr = 0;
  std::int64_t num_labels = 0;   // counted
  std::vector<SownNumber> sown;  // of the layers: losses by name, metrics per layer
};

// A NaN or infinity turned up; nothing was updated.
class NumericalError : public UserError {
 public:
  using UserError::UserError;
};

struct TrainStepOptions {
  std::int64_t rows = 1;    // of a microbatch
  std::int64_t tokens = 1;  // of a row
  std::int64_t microbatches = 1;
  DType dtype = DType::f32;
  std::string remat = "none";
  autodiff::RematTags remat_tags = {};  // of the policy custom
  bool aux = true;                      // with auxiliary losses and metrics of the layers
  bool mtp = true;                      // with multi-token prediction
  bool layer_metrics = false;           // with statistics of each layer's output, and its losses
  bool segments = true;                 // rows hold several documents
  double z_loss = 0;                    // weight
  double clip_norm = 0;                 // 0 = none
  std::uint64_t seed = 0;               // of dropout
};

// Loss and gradients of a microbatch; those of tables are lists where they can be.
decoder::ModelGraph step_graph(const decoder::Model& model, const TrainStepOptions& options);

class TrainStep {
 public:
  // Dense gradients for every table; used by tests and `lamina verify`.
  TrainStep(const decoder::Model& model, TrainState& state, const TrainStepOptions& options,
            const config::OptimizerSection& optimizer, const Backend& backend);
  // With the gradients of `graph`, a step_graph(). REQUIRES: `state` has its gradient_lists().
  TrainStep(const decoder::Model& model, decoder::ModelGraph graph, TrainState& state,
            const TrainStepOptions& options, const config::OptimizerSection& optimizer,
            const Backend& backend);

  // Gradients of the mean loss over all microbatches together, clipped, then one update. `step`
  // counts from 0. Throws NumericalError (exit 3) before anything is changed, naming the step and
  // the first bad tensor.
  StepResult run(std::span<const Microbatch> microbatches, double lr, std::int64_t step);

  // As run() without the update: gradients stay in the state.
  StepResult gradients(std::span<const Microbatch> microbatches, std::int64_t step);
  void update(StepResult& result, double lr, std::int64_t step);

  std::size_t arena_bytes() const { return arena_->bytes(); }
  decoder::BoundProgram& program() { return program_; }

 private:
  const decoder::Model& model_;
  TrainState& state_;
  TrainStepOptions options_;
  decoder::BoundProgram program_;
  Optimizer optimizer_;
  SownValues sown_;
  std::unique_ptr<Buffer> arena_;
};

}  // namespace lamina::train
