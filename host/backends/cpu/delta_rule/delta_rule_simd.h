// The table of delta rule functions of one instruction set, and the layout of their scratch memory.
// Private to delta_rule*.cc.
#pragma once

#include "backends/cpu/delta_rule/delta_rule.h"

namespace lamina::cpu {

inline constexpr std::int64_t kDeltaChunk = 64;

// Sizes in floats of a task's data: C tokens of a chunk, R heads of one key head.
struct DeltaSizes {
  std::int64_t heads;         // R
  std::int64_t keys, values;  // widths of rows of k and v, padded to whole vectors
  std::int64_t key_rows;      // [C, keys]
  std::int64_t value_rows;    // [C, values]
  std::int64_t state;         // [keys, values]
  std::int64_t num_saved;  // states saved for the backward pass, of chunks that continue a document

  explicit DeltaSizes(const DeltaRule& p)
      : heads(p.heads / p.key_heads),
        keys((p.key_width + 15) / 16 * 16),
        values((p.value_width + 15) / 16 * 16),
        key_rows(kDeltaChunk * keys),
        value_rows(kDeltaChunk * values),
        state(keys * values),
        num_saved(p.tokens / kDeltaChunk) {}

  static constexpr std::int64_t kSquare = kDeltaChunk * kDeltaChunk;
  // k, q, the transpose of k; factors of rows; k k^T, q k^T.
  std::int64_t of_keys() const { return 3 * key_rows + 2 * kDeltaChunk + 2 * kSquare; }
  // Five numbers per token; corrections; two triangles; decayed k; factors of columns.
  std::int64_t of_head() const {
    return 5 * kDeltaChunk + value_rows + 2 * kSquare + key_rows + values;
  }
  std::int64_t forward() const { return of_keys() + of_head() + value_rows + heads * state; }
  // Also the gradients of all these, and copies for products.
  std::int64_t backward() const {
    return of_keys() + of_head() + (2 + num_saved) * heads * state + 2 * state + 5 * value_rows +
           3 * key_rows + 3 * kSquare + 2 * kDeltaChunk;
  }
  // One token of one head: q, k, and two rows of values.
  std::int64_t recurrent() const { return 2 * keys + 2 * values; }
};

struct DeltaRuleFunctions {
  // Computes all tokens of row b and key head h, chunk by chunk.
  void (*forward)(const DeltaRuleForward& p, std::int64_t b, std::int64_t h, float* scratch);
  // Computes all tokens of row b and head n, one by one, with the state in place.
  void (*recurrent)(const DeltaRuleForward& p, std::int64_t b, std::int64_t n, float* scratch);
  // Computes the gradients of row b and key head h.
  void (*backward)(const DeltaRuleBackward& p, std::int64_t b, std::int64_t h, float* scratch);

  static const DeltaRuleFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
