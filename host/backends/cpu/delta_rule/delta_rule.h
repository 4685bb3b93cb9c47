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

}  // namespace lamina::cpu
