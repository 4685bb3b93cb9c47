// The embedding of tokens, and what replaces or changes it. Private to decoder.
#pragma once

#include "decoder/graph/graph_builder.h"

namespace lamina::decoder {

// Returns rows of the table for tokens i32[B, T], with positions and dropout; `stream` separates
// draws.
Tensor embed(GraphBuilder& to, Tensor tokens, Tensor positions, std::int64_t stream = 0);
// Returns the embedding of the call's tokens, and sets Input::embedding.
Tensor embedding(GraphBuilder& to);
// Returns x[B, T, D] with embedding override row index[b, t] where the index is not -1.
Tensor with_embedding_overrides(GraphBuilder& to, Tensor x, Tensor index);
// Returns x; training may drop channels of it. `stream` separates draws.
Tensor without_channels(GraphBuilder& to, Tensor x, std::int64_t stream);

}  // namespace lamina::decoder
