// Multi-token prediction: blocks after the stack, each predicting one token further.
// DeepSeek-AI 2024, section 2.2.
//
// Block j (from 0) reads at token t the token t + 1 + j, and predicts the one after it. If that one
// belongs to another document (or, chained, if the previous one does), it counts as token 0 and has
// no label. Private to decoder.
#pragma once

#include "decoder/graph/model_builder.h"

namespace lamina::decoder {

// Returns the weighted sum of the cross-entropies of multi-token prediction over counted labels,
// f32[]. `hidden`: the input of the final norm.
Tensor mtp_loss(ModelBuilder& b, Tensor hidden);
// Adds, for each depth, the number of counted labels, and the number of them at which it chooses
// the same token as the model, which sees all earlier tokens. `x`: the input of the model's head.
void add_mtp_agreement(ModelBuilder& b, Tensor hidden, Tensor x);
// Adds its states, the inputs of its heads, and their logits.
void add_mtp_outputs(ModelBuilder& b, Tensor hidden);
// Returns the weight of the loss at `depth`. Throws UserError (exit 2) if the list of weights has
// another length.
double mtp_weight(const ModelParts& parts, std::int64_t depth);

}  // namespace lamina::decoder
