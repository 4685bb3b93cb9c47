// Multi-token prediction: after the stack, blocks that each look one token further ahead.
// DeepSeek-AI 2024, section 2.2.
//
// Block j (from 0) sees at token t what token t + 1 + j is, and predicts the one after it. Where
// that is of another document (or, chained, where the token before it is) it counts as token 0 and
// has no label. Private to decoder.
#pragma once

#include "decoder/graph/assembler.h"

namespace lamina::decoder {

// Adds what multi-token prediction loses over counted labels, with its weights, to a loss graph.
// `hidden` is what the final norm gets.
void add_mtp_loss(Assembler& a, Tensor hidden);
// Adds, for each depth, how many labels are counted, and at how many of them it chooses the token
// that the model will, which sees all tokens before. `x` is what the model's head gets.
void add_mtp_agreement(Assembler& a, Tensor hidden, Tensor x);
// Adds its states, what its heads get, and their logits.
void add_mtp_outputs(Assembler& a, Tensor hidden);
// What the loss at `depth` is multiplied by. Throws UserError (exit 2) for a list of weights of
// another length.
double mtp_weight(const ModelParts& parts, std::int64_t depth);

}  // namespace lamina::decoder
