// Measures how well a model predicts a batch, without gradients: validation.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "decoder/model.h"
#include "program/bound_program.h"
#include "program/microbatch.h"
#include "train/loop/task.h"
#include "train/metrics/aux_values.h"

namespace lamina::train {

// Sums over batches.
struct EvalSums {
  // Sum of the cross-entropies in nats, in f64; for a task without perplexity, of its loss.
  double loss = 0;
  std::int64_t num_labels = 0;  // items that the task counts: labels or pairs
  std::vector<AuxScalar> task_sums = {};
  // Per depth of multi-token prediction: number of labels, and of labels for which it chose the
  // token that the model chooses once it has seen all tokens before. Empty for a model without.
  std::vector<double> mtp_counted = {}, mtp_agreed = {};

  EvalSums& operator+=(const EvalSums& more);
  double mean_loss() const;
  std::vector<AuxScalar> task_means() const;
  // Per depth, the share (0 to 1) of its proposed tokens that would be accepted; up to the first
  // depth that rows are too short for.
  std::vector<double> mtp_acceptance() const;
};

// Selects the loss, and the outputs beside its sums.
struct EvalOutputs {
  std::shared_ptr<const Task> task = next_token_task();
  bool mtp_agreement = true;  // for a model with multi-token prediction
};

// Returns the graph of a validation.
decoder::ModelGraph eval_graph(const decoder::Model& model, std::int64_t rows, std::int64_t tokens,
                               DType dtype, bool segments, const EvalOutputs& outputs = {});

class EvalStep {
 public:
  EvalStep(const decoder::Model& model, std::int64_t rows, std::int64_t tokens, DType dtype,
           bool segments, const Backend& backend, const EvalOutputs& outputs = {});
  // `used`: one pointer per parameter.
  EvalSums run(const program::Microbatch& batch, std::span<const ConstTensorRef> used);
  // Losses of the last run, [rows * tokens]: -log p of each label; 0 for ignored ones. Empty if the
  // loss of the task has no labels.
  std::span<const float> token_losses() const { return token_losses_; }

  std::size_t arena_bytes() const { return arena_->bytes(); }
  const decoder::GraphShape& shape() const { return shape_; }

 private:
  std::shared_ptr<const Task> task_;
  decoder::GraphShape shape_;
  std::vector<float> token_losses_;
  program::BoundProgram program_;
  std::unique_ptr<Buffer> arena_;
};

// Inputs of evaluate_rows().
struct EvalRows {
  std::uint64_t num_rows = 0;
  // Writes `count` rows from `first` on to `batch`; continues with row 0 after the last one.
  std::function<void(std::uint64_t first, std::int64_t count, data::Batch& batch)> read;
  // Returns Input::reference of a batch; absent: the graph has no such input.
  std::function<const float*(const data::Batch& batch)> reference = {};
  // Called after each batch; its first `count` rows are counted. May throw to stop.
  std::function<void(std::uint64_t first, std::int64_t count, const data::Batch& batch)> done = {};
};

// Returns the sums over rows. Each row counts once, however many the step computes together: the
// last batch is padded. Validation and `lamina eval` both call it.
EvalSums evaluate_rows(EvalStep& step, const EvalRows& rows, std::span<const ConstTensorRef> used);

}  // namespace lamina::train
