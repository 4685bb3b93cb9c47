// The rules for a region over time of a block. Private to decoder.
#pragma once

#include <span>
#include <vector>

#include "ops/decode.h"

namespace lamina::decoder {

// Returns the types of one token inside a region: its carries, in `wide` unless a state gives
// another type, then its inputs, which are [batch, tokens, ...]. Throws PluginError for other
// inputs.
std::vector<Type> token_types(std::span<const ops::StateDesc> states,
                              std::span<const Tensor> inputs, DType wide, std::int64_t batch,
                              std::int64_t tokens);

// Throws PluginError if a carry has changed its type or a result is not [batch, ...]. `before`: the
// result of token_types().
void check_region(std::span<const ops::StateDesc> states, std::span<const Type> before,
                  std::span<const Tensor> carries, std::span<const Tensor> results,
                  std::int64_t batch);

}  // namespace lamina::decoder
