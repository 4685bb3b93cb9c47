// The sub-layers that most families share: grouped-query self- and cross-attention, and the gated
// feed-forward. A family that needs more writes the part between project_qkv() and project_out().
// All functions [trace].
//
//   Tensor o_BTD = self_attention(s / "attention", x_BTD, step,
//                                 {.heads = 16, .kv_heads = 8, .head_dim = 128, .rope = rope});
//   Tensor y_BTD = gated_mlp(s / "feed_forward", x_BTD, {.width = 3072});
//
// Shapes: B batch, T tokens, D model width, C width of a context, N query heads, K key/value heads,
// H head width.
#pragma once

#include <optional>

#include "lamina/sdk/layers.h"
#include "lamina/sdk/step.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// RMS norm of queries and keys, before rotary positions.
enum class QkNorm {
  none,
  per_head,  // over H, one weight [H] for all heads; Dehghani et al. 2023
  whole,     // over all heads at once, weights [N H] and [K H]; Groeneveld et al. 2024
};

struct SelfAttentionOptions {
  std::int64_t heads = 0;     // N
  std::int64_t kv_heads = 0;  // K, a divisor of N
  std::int64_t head_dim = 0;  // H
  bool qkv_bias = false;
  bool out_bias = false;
  QkNorm qk_norm = QkNorm::none;
  RmsNormOptions norm = {};              // for queries and keys
  std::optional<RopeOptions> rope = {};  // empty = no positions
  bool sinks = false;                    // one more logit per head, "sinks" [N]
  AttendOptions attend = {};             // scale, cap, window, chunk, name of the state
};

struct Qkv {
  Tensor q_BTNH, k_BTKH, v_BTKH;
};

// Projects queries from x[B, T, D], keys and values from context[B, T, C]; applies norms and rotary
// positions. Owns "wq", "wk", "wv" and, with a norm, "q_norm", "k_norm".
inline Qkv project_qkv(const Scope& s, Tensor x_BTD, Tensor context_BTC, const Step& step,
                       const SelfAttentionOptions& o, At at = At::current()) {
  const std::int64_t n = o.heads, k = o.kv_heads, h = o.head_dim;
  Tensor q = linear(s / "wq", x_BTD, n * h, {.out = axis::heads, .bias = o.qkv_bias}, at);
  Tensor key =
      linear(s / "wk", context_BTC, k * h, {.out = axis::kv_heads, .bias = o.qkv_bias}, at);
  Tensor value =
      linear(s / "wv", context_BTC, k * h, {.out = axis::kv_heads, .bias = o.qkv_bias}, at);
  if (o.qk_norm == QkNorm::whole) {
    q = rms_norm(s / "q_norm", q, o.norm, at);
    key = rms_norm(s / "k_norm", key, o.norm, at);
  }
  Qkv out{split_heads(q, n, at), split_heads(key, k, at), split_heads(value, k, at)};
  if (o.qk_norm == QkNorm::per_head) {
    out.q_BTNH = rms_norm(s / "q_norm", out.q_BTNH, o.norm, at);
    out.k_BTKH = rms_norm(s / "k_norm", out.k_BTKH, o.norm, at);
  }
  if (o.rope) {
    const Tensor positions = o.rope->mrope_section.empty()
                                 ? step.positions_BT
                                 : step.input(LAMINA_INPUT_POSITIONS_3D, at);
    out.q_BTNH = rope(out.q_BTNH, positions, *o.rope, at);
    out.k_BTKH = rope(out.k_BTKH, positions, *o.rope, at);
  }
  return out;
}

// Projects all three from x[B, T, D].
inline Qkv project_qkv(const Scope& s, Tensor x_BTD, const Step& step,
                       const SelfAttentionOptions& o, At at = At::current()) {
  return project_qkv(s, x_BTD, x_BTD, step, o, at);
}

// Projects the heads' results [B, T, N, H] to [B, T, width]. Owns "wo".
inline Tensor project_out(const Scope& s, Tensor o_BTNH, std::int64_t width, bool bias = false,
                          At at = At::current()) {
  return linear(s / "wo", merge_heads(o_BTNH, at), width,
                {.in = axis::heads, .bias = bias, .tag = tags::out_proj}, at);
}

// Maps x[B, T, D] to [B, T, D] by attention to context[B, T, C]: another carry, the embedding, or a
// tensor of the entry block, with one row per token. A token sees the rows of the tokens that are
// visible to it; the decode state keeps their keys and values.
inline Tensor cross_attention(const Scope& s, Tensor x_BTD, Tensor context_BTC, const Step& step,
                              const SelfAttentionOptions& o, At at = At::current()) {
  const Qkv qkv = project_qkv(s, x_BTD, context_BTC, step, o, at);
  AttendOptions attend = o.attend;
  if (o.sinks)
    attend.sinks = s.param(
        "sinks", {o.heads},
        {.axes = {axis::heads}, .role = Role::scalar, .init = init::normal(s.init_std())}, at);
  Tensor o_BTNH = step.attend(qkv.q_BTNH, qkv.k_BTKH, qkv.v_BTKH, attend, at);
  return project_out(s, o_BTNH, x_BTD.dim(-1, at), o.out_bias, at);
}

// Maps x[B, T, D] to [B, T, D].
inline Tensor self_attention(const Scope& s, Tensor x_BTD, const Step& step,
                             const SelfAttentionOptions& o, At at = At::current()) {
  return cross_attention(s, x_BTD, x_BTD, step, o, at);
}

struct GluLimits {
  std::string_view activation = "silu";  // of the gate, as config.json names it
  double limit = 0;                      // gate is clamped from above, up from both sides; 0 = off
  double alpha = 0;                      // not 0: gate sigmoid(alpha gate) (up + 1), as gpt-oss
};

// activation(gate) * up, with limits.
inline Tensor limited_glu(Tensor gate, Tensor up, const GluLimits& o, At at = At::current()) {
  if (o.limit > 0) {
    gate = minimum(gate, o.limit, at);
    up = maximum(minimum(up, o.limit, at), -o.limit, at);
  }
  if (o.alpha != 0) return gate * sigmoid(scale(gate, o.alpha, at), at) * shift(up, 1, at);
  return gated(gate, up, o.activation, at);
}

struct GatedMlpOptions {
  std::int64_t width = 0;                // F
  std::string_view activation = "silu";  // of the gate, as config.json names it
  bool bias = false;
  double limit = 0;  // see GluLimits
};

// w2 (activation(w1 x) * w3 x): maps [B, T, D] to [B, T, D]; Shazeer 2020. w1 is published as
// gate_proj, w3 as up_proj, w2 as down_proj.
inline Tensor gated_mlp(const Scope& s, Tensor x_BTD, const GatedMlpOptions& o,
                        At at = At::current()) {
  Tensor gate_BTF = linear(s / "w1", x_BTD, o.width,
                           {.out = axis::mlp, .bias = o.bias, .tag = tags::mlpwi_0}, at);
  Tensor up_BTF = linear(s / "w3", x_BTD, o.width,
                         {.out = axis::mlp, .bias = o.bias, .tag = tags::mlpwi_1}, at);
  Tensor h_BTF = limited_glu(gate_BTF, up_BTF, {.activation = o.activation, .limit = o.limit}, at);
  return linear(s / "w2", h_BTF, x_BTD.dim(-1, at),
                {.in = axis::mlp, .bias = o.bias, .tag = tags::mlpwo}, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
