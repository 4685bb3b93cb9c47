// What a region over time of a block must be like. Private to decoder.
#pragma once

#include <span>
#include <vector>

#include "ops/decode.h"

namespace lamina::decoder {

// The types of one token inside a region: its carries, in `wide` unless a state says otherwise,
// then its inputs, which are [batch, tokens, ...]. Throws PluginError for other inputs.
std::vector<Type> token_types(std::span<const ops::StateDesc> states,
                              std::span<const Tensor> inputs, DType wide, std::int64_t batch,
                              std::int64_t tokens);

// Throws PluginError where a carry has changed its type or a result is not [batch, ...]. `before`:
// as token_types() gives them.
void check_region(std::span<const ops::StateDesc> states, std::span<const Type> before,
                  std::span<const Tensor> carries, std::span<const Tensor> results,
                  std::int64_t batch);

}  // namespace lamina::decoder
