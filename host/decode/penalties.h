// Applies the effects of earlier tokens to the logits of the next one.
#pragma once

#include <cstdint>
#include <span>

#include "decode/sampler.h"

namespace lamina::decode {

// True if a repetition penalty changes logits: it is not 1, and its window has tokens.
bool penalises_repeats(const SamplerOptions& options);

// True if the options have any such effect: bias, penalties, excluded tokens.
bool has_penalties(const SamplerOptions& options);

// True if no effect raises a logit: a token that was unlikely remains so.
bool only_lowers(const SamplerOptions& options);

// The logits of a row, or of some of its tokens.
class Logits {
 public:
  // `ids`: one per value, rising; empty for the tokens 0, 1, ...
  explicit Logits(std::span<float> values, std::span<const std::int32_t> ids = {})
      : values_(values), ids_(ids) {}
  std::span<float> values() const { return values_; }
  // Returns null if the token is not among them.
  float* find(std::int32_t id) const;

 private:
  std::span<float> values_;
  std::span<const std::int32_t> ids_;
};

// Changes `logits`; -infinity excludes a token. `tokens`: the prompt, then `num_output` tokens of
// output. Ids that are not among the logits are ignored.
void apply_penalties(const SamplerOptions& options, std::span<const std::int32_t> tokens,
                     std::size_t num_output, Logits logits);

}  // namespace lamina::decode
