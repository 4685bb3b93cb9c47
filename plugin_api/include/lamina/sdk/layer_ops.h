// The larger ops of ops.def as functions: products with weights, norms, rotary positions, token
// mixers, experts. Weights and decode states are arguments; blocks usually call the forms of
// layers.h and step.h, which own theirs. Options are generated from ops.def.
//
//   Tensor r = rope(q_BTNH, step.positions_BT, {.theta = 500000});
#pragma once

#include "lamina/sdk/host.h"
#include "lamina/sdk/ops.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// Products and norms.
inline Tensor linear(Tensor x, Tensor w, Tensor bias = {}, At at = At::current()) {
  return emit<Op::linear>({x, w, bias}, at);
}
inline Tensor embedding(Tensor table, Tensor ids, At at = At::current()) {
  return emit<Op::embedding>({table, ids}, at);
}

struct RmsNormOptions {
  LAMINA_RMS_NORM_OPTIONS
};
inline Tensor rms_norm(Tensor x, Tensor w, const RmsNormOptions& o = {}, At at = At::current()) {
  return emit<Op::rms_norm>({x, w}, rms_norm_attrs(o), at);
}

struct LayerNormOptions {
  LAMINA_LAYER_NORM_OPTIONS
  bool bias = true;  // for layers and final norms that own their bias; not an attribute of the op
};
inline Tensor layer_norm(Tensor x, Tensor w, Tensor bias, const LayerNormOptions& o = {},
                         At at = At::current()) {
  return emit<Op::layer_norm>({x, w, bias}, layer_norm_attrs(o), at);
}

struct RopeOptions {
  LAMINA_ROPE_OPTIONS
  Tensor frequencies = {};  // [rotary_dim / 2], radians per token; replaces theta and scaling
};
inline Tensor rope(Tensor x, Tensor positions, const RopeOptions& o = {}, At at = At::current()) {
  Attrs<Op::rope> attrs = rope_attrs(o);
  // The scaling comes from a config file, so it is the host of the run that must know it.
  if (o.scaling == "longrope" && !host_knows_minor(8))
    raise(Error(LAMINA_ERROR_UNSUPPORTED,
                "rotary positions with scaling longrope need plugin ABI 0.8; this host is older",
                at));
  attrs.checked_by_caller();
  return emit<Op::rope>({x, positions, o.frequencies}, attrs, at);
}

// scale 0 = 1 / sqrt(head width); window and chunk 0 = all.
struct AttentionOptions {
  LAMINA_ATTENTION_OPTIONS
};
// Optional inputs of attention besides q, k and v.
struct AttentionExtras {
  Tensor sinks = {};   // [N], one more logit per head
  Tensor mask = {};    // bool[B, T, S] or [B, N, T, S]: keys that may be seen
  Tensor blocks = {};  // i32[B, T]: tokens of one block (0 = none) see each other both ways
  Tensor slopes = {};  // [N]: -slopes[n] |tq - tk| is added to the logits
  Tensor bias = {};    // [N, R]: bias[n, min(|tq - tk|, R - 1)] is added to the logits
};
// Maps q[B, T, N, H], k[B, S, K, H], v[B, S, K, Hv] to [B, T, N, Hv]. The host adds positions,
// segments and the memory of the state. Blocks usually call step.attend(), which declares the
// state. Options: AttentionOptions, or another struct with LAMINA_ATTENTION_OPTIONS.
template <class Options = AttentionOptions>
Tensor attention(Tensor q, Tensor k, Tensor v, State state, const Options& o = {},
                 const AttentionExtras& e = {}, At at = At::current()) {
  return emit_all<Op::attention>(std::array{q, k, v, e.sinks, e.mask, e.blocks, e.slopes, e.bias},
                                 attention_attrs(o), state, at)
      .front();
}

// chunk: tokens; k: chunks per query, including its own.
struct MobaMaskOptions {
  LAMINA_MOBA_MASK_OPTIONS
};
// Returns the keys k[B, S, K, H] that q[B, T, N, H] may see, as bool[B, N, T, S]: the chunks whose
// mean key has the highest score. `state` is the state of the attention that uses the mask. Lu et
// al. 2025.
inline Tensor moba_mask(Tensor q, Tensor k, State state, const MobaMaskOptions& o,
                        At at = At::current()) {
  return emit_all<Op::moba_mask>(std::array{q, k}, moba_mask_attrs(o), state, at).front();
}

struct CausalConv1dOptions {
  LAMINA_CAUSAL_CONV1D_OPTIONS
};
// Maps x[B, T, C], w[C, K] and bias[C] (may be empty) to [B, T, C]. The host adds segments and the
// memory of the state. Blocks usually call step.causal_conv1d(), which declares the state.
inline Tensor causal_conv1d(Tensor x, Tensor w, Tensor bias, State state,
                            const CausalConv1dOptions& o = {}, At at = At::current()) {
  return emit_all<Op::causal_conv1d>(std::array{x, w, bias}, causal_conv1d_attrs(o), state, at)
      .front();
}

// scale 0 = 1 / sqrt(key width).
struct GatedDeltaRuleOptions {
  LAMINA_GATED_DELTA_RULE_OPTIONS
};
// As Step::gated_delta_rule(), with a given state; blocks usually call that one.
inline Tensor gated_delta_rule(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, State state,
                               const GatedDeltaRuleOptions& o = {}, At at = At::current()) {
  return emit_all<Op::gated_delta_rule>(std::array{q, k, v, g, beta}, gated_delta_rule_attrs(o),
                                        state, at)
      .front();
}

// y_t = a_t y_(t-1) + b_t for a, b[B, T, C]. Blocks usually call step.linear_scan(), which declares
// the state.
inline Tensor linear_scan(Tensor a, Tensor b, State state, At at = At::current()) {
  return emit_all<Op::linear_scan>(std::array{a, b}, Attrs<Op::linear_scan>{}, state, at).front();
}

// The rank-one change a outer (b^T S) of the state S; both empty = none.
struct RankOne {
  Tensor a = {}, b = {};
};
// decay_first: b reads the decayed state; read_before: q reads the state before the token.
struct MatrixScanOptions {
  LAMINA_MATRIX_SCAN_OPTIONS
};
// As Step::matrix_scan(), with a given state; blocks usually call that one.
inline Tensor matrix_scan(Tensor q, Tensor k, Tensor v, Tensor g, const RankOne& change,
                          State state, const MatrixScanOptions& o = {}, At at = At::current()) {
  return emit_all<Op::matrix_scan>(std::array{q, k, v, g, change.a, change.b}, matrix_scan_attrs(o),
                                   state, at)
      .front();
}

struct GluOptions {
  LAMINA_GLU_OPTIONS
};
inline Tensor glu(Tensor gate, Tensor up, const GluOptions& o = {}, At at = At::current()) {
  return emit<Op::glu>({gate, up}, glu_attrs(o), at);
}

inline Tensor soft_cap(Tensor x, double cap, At at = At::current()) {
  return emit<Op::soft_cap>({x}, Attrs<Op::soft_cap>().number("cap", cap), at);
}

// Zeroes elements at random in training. Each dropout of a layer draws its own numbers.
inline Tensor dropout(Tensor x, double rate, At at = At::current()) {
  if (rate == 0) return x;
  return emit<Op::dropout>({x}, Attrs<Op::dropout>().number("rate", rate), at);
}

// Experts. Blocks usually call the functions of lamina/sdk/moe.h.
// capacity_factor: most rows of a group, relative to an equal share; 0 = all.
struct GroupRowsOptions {
  LAMINA_GROUP_ROWS_OPTIONS
};
// Returns order, offsets: the assignments ids[..., K] sorted by group.
inline std::array<Tensor, 2> group_rows(Tensor ids, const GroupRowsOptions& o,
                                        At at = At::current()) {
  return emit_all<Op::group_rows>(std::array{ids}, group_rows_attrs(o), State{}, at);
}
// `divide`: the number of assignments per row of x.
inline Tensor gather_rows(Tensor x, Tensor order, std::int64_t divide, At at = At::current()) {
  return emit<Op::gather_rows>({x, order}, Attrs<Op::gather_rows>().integer("divide", divide), at);
}
inline Tensor combine_rows(Tensor x, Tensor order, Tensor weights, At at = At::current()) {
  return emit<Op::combine_rows>({x, order, weights}, at);
}
// Multiplies each group of rows by its own matrix. bias may be empty.
inline Tensor grouped_linear(Tensor x, Tensor w, Tensor offsets, Tensor bias = {},
                             At at = At::current()) {
  return emit<Op::grouped_linear>({x, w, offsets, bias}, at);
}

// Returns the k keys with the highest scores[B, T, S] among the visible ones, as bool[B, T, S].
inline Tensor top_k_mask(Tensor scores, std::int64_t k, bool causal = true, At at = At::current()) {
  return emit<Op::top_k_mask>({scores},
                              Attrs<Op::top_k_mask>().integer("k", k).flag("causal", causal), at);
}

// Returns attention probabilities of q[B, T, N, H] and k[B, S, N, H], summed over heads, for the
// keys in mask[B, T, S]; scale 0 is 1 / sqrt(H). No gradient flows through it.
inline Tensor attention_mass(Tensor q, Tensor k, Tensor mask, double scale = 0,
                             At at = At::current()) {
  return emit<Op::attention_mass>({q, k, mask}, Attrs<Op::attention_mass>().number("scale", scale),
                                  at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
