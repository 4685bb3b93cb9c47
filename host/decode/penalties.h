// What tokens so far do to the logits of the next one.
#pragma once

#include <cstdint>
#include <span>

#include "decode/sampler.h"

namespace lamina::decode {

// Whether options have any of it: bias, penalties, tokens that must not come.
bool has_penalties(const SamplerOptions& options);

// Changes `logits`; -infinity is a token that must not come. `tokens`: the prompt, then
// `num_output` tokens of output. Ids outside of the logits are passed over.
void apply_penalties(const SamplerOptions& options, std::span<const std::int32_t> tokens,
                     std::size_t num_output, std::span<float> logits);

}  // namespace lamina::decode
