// The gated delta rule: in chunks of 64 tokens for training and prefill, token by token for
// decoding, and backward. ops/gated_delta_rule.cc defines it.
//
//   delta_rule_forward({.dtype = DType::bf16, .batch = 1, .tokens = 512, .key_heads = 16,
//                       .heads = 32, .key_width = 128, .value_width = 128, .scale = 0.088f, ...});
//
// Within a chunk with G_i = g_1 + ... + g_i and the state S before it, the corrections U solve
//   U_i = beta_i (v_i - exp(G_i) S^T k_i - sum over j < i of exp(G_i - G_j) (k_i . k_j) U_j)
// by forward substitution, and then
//   y_i = scale (exp(G_i) S^T q_i + sum over j <= i of exp(G_i - G_j) (q_i . k_j) U_j)
//   S   = exp(G_C) S + sum over j of exp(G_C - G_j) k_j outer U_j.
// Yang et al. 2024, "Gated Delta Networks", section 3.3. All exponents are at most 0 when g is.
//
// q, k, v, y and their gradients are f32 or bf16; arithmetic and the state are f32. Nothing is
// allocated. Results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/threads/numbers.h"

namespace lamina::cpu {

struct DeltaRule {
  std::int64_t batch, tokens, key_heads, heads, key_width, value_width;
  float scale;
  bool normalize = false;
  ConstNumbers q, k;     // [batch, tokens, key_heads, key_width]
  ConstNumbers v;        // [batch, tokens, heads, value_width]
  ConstNumbers g, beta;  // [batch, tokens, heads]
  const std::int32_t* segments =
      nullptr;  // [batch, tokens], optional: a new segment resets the state
};

struct DeltaRuleForward : DeltaRule {
  Numbers y;  // [batch, tokens, heads, value_width]
  // Decode state. If given, start and count are too.
  float* state = nullptr;               // [batch, heads, key_width, value_width], rewritten
  const std::int32_t* start = nullptr;  // [batch]: 0 = the state counts as zeros
  const std::int32_t* count = nullptr;  // [batch]: later tokens get zeros and change nothing
  float* workspace = nullptr;           // delta_rule_forward_workspace_bytes
};
void delta_rule_forward(const DeltaRuleForward& p);

struct DeltaRuleBackward : DeltaRule {
  ConstNumbers dy;
  Numbers dq, dk, dv, dg, dbeta;
  float* workspace = nullptr;
};
void delta_rule_backward(const DeltaRuleBackward& p);

// Returns the bytes for the current number of threads. REQUIRES: runs have no larger pool.
std::size_t delta_rule_forward_workspace_bytes(const DeltaRuleForward& p);
std::size_t delta_rule_backward_workspace_bytes(const DeltaRule& p);

// True if a forward pass of `tokens` tokens over decode state is computed token by token.
bool delta_rule_is_recurrent(std::int64_t tokens);

// The rest is private to this folder.

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

// The functions of one instruction set.
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
