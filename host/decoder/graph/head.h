// The final norm and the head: logits, choices and the loss of next tokens. Private to decoder.
#pragma once

#include <functional>
#include <vector>

#include "decoder/graph/graph_builder.h"

namespace lamina::decoder {

Tensor final_norm(GraphBuilder& to, Tensor x);
// Returns the head's input from the output of the final norm; training may drop channels. `depth`
// is 0 for the model, 1 and up for multi-token prediction.
Tensor for_head(GraphBuilder& to, Tensor normed, std::int64_t depth = 0);
// Returns the head's bias; null without one.
Tensor head_bias(GraphBuilder& to);

// Returns the logits of x[..., D], f32[rows, V].
Tensor logits(GraphBuilder& to, Tensor x);
// Results of ops::cross_entropy over rows of x[..., D]: its sums, and token_losses[rows].
struct TokenLosses {
  Tensor loss, z_loss, uniform_loss, token_losses;
};
TokenLosses token_losses(GraphBuilder& to, Tensor x, Tensor labels);
// Returns i32[rows]: the token with the largest logit, the lowest of equal ones. The whole logits
// are never stored.
Tensor choices(GraphBuilder& to, Tensor x);

// Returns values with rows [rows, ...] that `use` computes from logits [block, V] of blocks of rows
// of x[..., D]: the logits of only one block exist at a time.
std::vector<Tensor> of_logits(GraphBuilder& to, Tensor x,
                              const std::function<std::vector<Tensor>(Tensor logits)>& use);

}  // namespace lamina::decoder
