// Outputs of multi-token prediction for rows of tokens, for comparison with a golden case.
#pragma once

#include <vector>

#include "decoder/model.h"
#include "program/rows.h"
#include "train/optimizer/train_state.h"

namespace lamina::inspect {

struct Prediction {
  std::vector<float> hidden;  // [depth, B, T, D] or [.., K, D]: the next depth reads it
  std::vector<float> normed;  // [depth, B, T, D]: the input of the head
  std::vector<float> logits;  // [depth, B, T, V]
};
Prediction predict(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                   const program::Rows& rows, DType dtype, const Backend& backend);

// The mean of the cross-entropies of all depths over their labels, without weights; adds its
// gradients to the state's. REQUIRES: the model predicts at least one further token.
double prediction_gradients(const decoder::Model& model, const train::TrainState& state,
                            const program::Rows& rows, DType dtype, const Backend& backend);

}  // namespace lamina::inspect
