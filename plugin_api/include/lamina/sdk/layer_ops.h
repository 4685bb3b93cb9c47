// The larger ops of ops.def as functions: products with weights, norms, rotary positions, token
// mixers, experts. Weights and decode states are arguments; blocks usually call the forms of
// layers.h and step.h, which own theirs. Options have the names and defaults of ops.def (a test
// compares them).
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
  double eps = 1e-6;
  double offset = 0;
};
inline Attrs<Op::rms_norm> attrs_of(const RmsNormOptions& o) {
  return Attrs<Op::rms_norm>().number("eps", o.eps).number("offset", o.offset);
}
inline Tensor rms_norm(Tensor x, Tensor w, const RmsNormOptions& o = {}, At at = At::current()) {
  return emit<Op::rms_norm>({x, w}, attrs_of(o), at);
}

struct LayerNormOptions {
  double eps = 1e-5;
  double offset = 0;
  bool bias = true;  // for layers and final norms that own their bias; not an attribute of the op
};
inline Attrs<Op::layer_norm> attrs_of(const LayerNormOptions& o) {
  return Attrs<Op::layer_norm>().number("eps", o.eps).number("offset", o.offset);
}
inline Tensor layer_norm(Tensor x, Tensor w, Tensor bias, const LayerNormOptions& o = {},
                         At at = At::current()) {
  return emit<Op::layer_norm>({x, w, bias}, attrs_of(o), at);
}

struct RopeOptions {
  double theta = 10000;
  std::int64_t rotary_dim = 0;
  bool interleaved = false;
  std::string_view scaling = "none";
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_positions = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;
  double mscale = 0;
  double mscale_all_dim = 0;
  bool truncate = true;
  std::int64_t max_positions = 0;
  std::int64_t frequency_dim = 0;
  Dims mrope_section = {};  // frequencies rotated by time, height, width
  bool mrope_interleaved = false;
  std::vector<double> short_factor = {}, long_factor = {};  // scaling "longrope"
  Tensor frequencies = {};  // [rotary_dim / 2], radians per token; replaces theta and scaling
};
inline Tensor rope(Tensor x, Tensor positions, const RopeOptions& o = {}, At at = At::current()) {
  Attrs<Op::rope> attrs;
  attrs.number("theta", o.theta)
      .integer("rotary_dim", o.rotary_dim)
      .flag("interleaved", o.interleaved)
      .text("scaling", o.scaling)
      .number("factor", o.factor)
      .number("low_freq_factor", o.low_freq_factor)
      .number("high_freq_factor", o.high_freq_factor)
      .integer("original_max_positions", o.original_max_positions)
      .number("beta_fast", o.beta_fast)
      .number("beta_slow", o.beta_slow)
      .number("attention_factor", o.attention_factor)
      .number("mscale", o.mscale)
      .number("mscale_all_dim", o.mscale_all_dim)
      .flag("truncate", o.truncate)
      .integer("max_positions", o.max_positions)
      .integer("frequency_dim", o.frequency_dim)
      .integers("mrope_section", o.mrope_section)
      .flag("mrope_interleaved", o.mrope_interleaved)
      .numbers("short_factor", o.short_factor)
      .numbers("long_factor", o.long_factor);
  // The scaling comes from a config file, so it is the host of the run that must know it.
  if (o.scaling == "longrope" && !host_knows_minor(8))
    raise(Error(LAMINA_ERROR_UNSUPPORTED,
                "rotary positions with scaling longrope need plugin ABI 0.8; this host is older",
                at));
  attrs.checked_by_caller();
  return emit<Op::rope>({x, positions, o.frequencies}, attrs, at);
}

struct AttentionOptions {
  double scale = 0;  // 0 = 1 / sqrt(head width)
  double soft_cap = 0;
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t chunk = 0;
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
// state.
inline Tensor attention(Tensor q, Tensor k, Tensor v, State state, const AttentionOptions& o = {},
                        const AttentionExtras& e = {}, At at = At::current()) {
  Attrs<Op::attention> attrs;
  attrs.number("scale", o.scale)
      .number("soft_cap", o.soft_cap)
      .flag("causal", o.causal)
      .integer("window", o.window)
      .integer("chunk", o.chunk);
  return emit_all<Op::attention>(std::array{q, k, v, e.sinks, e.mask, e.blocks, e.slopes, e.bias},
                                 attrs, state, at)
      .front();
}

struct MobaMaskOptions {
  std::int64_t chunk = 1;  // tokens
  std::int64_t k = 1;      // chunks per query, including its own
};
// Returns the keys k[B, S, K, H] that q[B, T, N, H] may see, as bool[B, N, T, S]: the chunks whose
// mean key has the highest score. `state` is the state of the attention that uses the mask. Lu et
// al. 2025.
inline Tensor moba_mask(Tensor q, Tensor k, State state, const MobaMaskOptions& o,
                        At at = At::current()) {
  Attrs<Op::moba_mask> attrs;
  attrs.integer("chunk", o.chunk).integer("k", o.k);
  return emit_all<Op::moba_mask>(std::array{q, k}, attrs, state, at).front();
}

struct CausalConv1dOptions {
  std::int64_t dilation = 1;
  std::string_view activation = "none";
  bool across = false;
};
// Maps x[B, T, C], w[C, K] and bias[C] (may be empty) to [B, T, C]. The host adds segments and the
// memory of the state. Blocks usually call step.causal_conv1d(), which declares the state.
inline Tensor causal_conv1d(Tensor x, Tensor w, Tensor bias, State state,
                            const CausalConv1dOptions& o = {}, At at = At::current()) {
  Attrs<Op::causal_conv1d> attrs;
  attrs.integer("dilation", o.dilation).text("activation", o.activation).flag("across", o.across);
  return emit_all<Op::causal_conv1d>(std::array{x, w, bias}, attrs, state, at).front();
}

struct GatedDeltaRuleOptions {
  double scale = 0;  // 0 = 1 / sqrt(key width)
  bool normalize = false;
  bool across = false;
};
// As Step::gated_delta_rule(), with a given state; blocks usually call that one.
inline Tensor gated_delta_rule(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, State state,
                               const GatedDeltaRuleOptions& o = {}, At at = At::current()) {
  Attrs<Op::gated_delta_rule> attrs;
  attrs.number("scale", o.scale).flag("normalize", o.normalize).flag("across", o.across);
  return emit_all<Op::gated_delta_rule>(std::array{q, k, v, g, beta}, attrs, state, at).front();
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
struct MatrixScanOptions {
  double scale = 1;
  bool decay_first = true;   // b reads the decayed state
  bool read_before = false;  // q reads the state before the token
};
// As Step::matrix_scan(), with a given state; blocks usually call that one.
inline Tensor matrix_scan(Tensor q, Tensor k, Tensor v, Tensor g, const RankOne& change,
                          State state, const MatrixScanOptions& o = {}, At at = At::current()) {
  Attrs<Op::matrix_scan> attrs;
  attrs.number("scale", o.scale)
      .flag("decay_first", o.decay_first)
      .flag("read_before", o.read_before);
  return emit_all<Op::matrix_scan>(std::array{q, k, v, g, change.a, change.b}, attrs, state, at)
      .front();
}

struct GluOptions {
  std::string_view activation = "silu";
};
inline Tensor glu(Tensor gate, Tensor up, const GluOptions& o = {}, At at = At::current()) {
  return emit<Op::glu>({gate, up}, Attrs<Op::glu>().text("activation", o.activation), at);
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
struct GroupRowsOptions {
  std::int64_t groups = 0;
  double capacity_factor = 0;  // most rows of a group, relative to an equal share; 0 = all
};
// Returns order, offsets: the assignments ids[..., K] sorted by group.
inline std::array<Tensor, 2> group_rows(Tensor ids, const GroupRowsOptions& o,
                                        At at = At::current()) {
  Attrs<Op::group_rows> attrs;
  attrs.integer("groups", o.groups).number("capacity_factor", o.capacity_factor);
  return emit_all<Op::group_rows>(std::array{ids}, attrs, State{}, at);
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
