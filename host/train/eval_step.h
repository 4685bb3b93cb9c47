// How well a model predicts a batch, without gradients: validation.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "decoder/model.h"
#include "program/bound_program.h"
#include "program/microbatch.h"

namespace lamina::train {

// Sums over batches.
struct EvalSums {
  double loss = 0;  // of the cross-entropies, in nats
  std::int64_t num_labels = 0;
  // Of multi-token prediction, one per depth: labels, and those where it chose the token that the
  // model chooses once it has seen all tokens before. Empty for a model without.
  std::vector<double> mtp_counted = {}, mtp_agreed = {};

  EvalSums& operator+=(const EvalSums& more);
  double mean_loss() const;
  // Shares of 1: how many of the tokens that a depth proposes would be accepted.
  std::vector<double> mtp_acceptance() const;
};

// What comes out beside the sums of the loss.
struct EvalOutputs {
  bool mtp_agreement = true;  // for a model with multi-token prediction
  bool token_losses = false;
};

// What a validation computes.
decoder::ModelGraph eval_graph(const decoder::Model& model, std::int64_t rows, std::int64_t tokens,
                               DType dtype, bool segments, const EvalOutputs& outputs = {});

class EvalStep {
 public:
  EvalStep(const decoder::Model& model, std::int64_t rows, std::int64_t tokens, DType dtype,
           bool segments, const Backend& backend, const EvalOutputs& outputs = {});
  // `used`: one pointer per parameter.
  EvalSums run(const program::Microbatch& batch, std::span<void* const> used);
  // Of the last run, [rows * tokens]: -log p of each label; 0 where none counts. Empty unless asked
  // for.
  std::span<const float> token_losses() const { return token_losses_; }

  std::size_t arena_bytes() const { return arena_->bytes(); }

 private:
  std::int64_t rows_, tokens_;
  std::size_t mtp_depth_;
  std::vector<float> token_losses_;
  program::BoundProgram program_;
  std::unique_ptr<Buffer> arena_;
};

}  // namespace lamina::train
