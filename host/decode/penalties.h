// Applies the effects of earlier tokens to the logits of the next one.
#pragma once

#include <cstdint>
#include <span>

#include "decode/sampler.h"

namespace lamina::decode {

// True if the options have any such effect: bias, penalties, excluded tokens.
bool has_penalties(const SamplerOptions& options);

// Changes `logits`; -infinity excludes a token. `tokens`: the prompt, then `num_output` tokens of
// output. Ids outside the logits are ignored.
void apply_penalties(const SamplerOptions& options, std::span<const std::int32_t> tokens,
                     std::size_t num_output, std::span<float> logits);

}  // namespace lamina::decode
