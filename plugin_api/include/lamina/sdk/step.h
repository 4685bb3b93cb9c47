// A block's inputs besides activations; the layers that mix tokens, with the decode states that
// keep earlier tokens (docs/decode_state.md); and the losses, metrics and updates that a block adds
// (docs/auxiliary_values.md).
//
//   Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH, {.window = c.sliding_window});
#pragma once

#include "lamina/ext/auxiliary.h"
#include "lamina/sdk/compressed_attention.h"
#include "lamina/sdk/layer_ops.h"
#include "lamina/sdk/step_options.h"
#include "lamina/sdk/time_region.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// A block's inputs besides activations; the same in training, prefill and decoding. All functions
// [trace].
class Step {
 public:
  explicit Step(const Scope& s, std::vector<Tensor> per_layer = {}, At at = At::current())
      : positions_BT(input(s, LAMINA_INPUT_POSITIONS, at)),
        scope_(s),
        per_layer_(std::move(per_layer)) {}

  // The step of a custom op's lowering. It has no positions: an op that needs them has an input.
  static Step of_op(const Scope& s) { return Step(s, OfOp{}); }

  Tensor positions_BT;    // i32, from 0 in each document
  bool predicts = false;  // true in a prediction layer, see mtp.h

  // Returns a LAMINA_INPUT_*.
  Tensor input(std::uint32_t kind, At at = At::current()) const { return input(scope_, kind, at); }

  // Returns this layer's element of per-layer tensor i of the entry block (Embed::per_layer).
  Tensor per_layer(std::size_t i, At at = At::current()) const {
    if (i >= per_layer_.size())
      raise(Error(LAMINA_ERROR_ARGUMENT,
                  "per_layer(" + std::to_string(i) + ") is out of range: the entry block makes " +
                      std::to_string(per_layer_.size()) + " tensors",
                  at));
    return per_layer_[i];
  }

  // The same step for a part of the block: its states are named below `s`, so that two convolutions
  // in two scopes have different names.
  Step in(const Scope& s) const {
    Step out = *this;
    out.scope_ = s;
    return out;
  }

  // Attention over this and earlier tokens: maps q[B,T,N,H], k[B,T,K,H], v[B,T,K,Hv] to [B,T,N,Hv].
  // Declares the decode state for k and v.
  Tensor attend(Tensor q, Tensor k, Tensor v, const AttendOptions& o = {},
                At at = At::current()) const {
    q = tagged(q, tags::query_proj, at);
    k = tagged(k, tags::key_proj, at);
    v = tagged(v, tags::value_proj, at);
    State kv = scope_.state(
        LAMINA_STATE_KV, o.state, {k.dim(2, at), k.dim(3, at), v.dim(3, at)},
        {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM, LAMINA_AXIS_CACHE_DIM},
         .window = o.window,
         .chunk = o.chunk},
        at);
    return attend_over(q, k, v, kv, o, at);
  }

  // Attention over the keys and values of the layer that the plan names as kv_donor. The window
  // must not reach further back than the donor's.
  Tensor attend(Tensor q, const AttendOptions& o = {}, At at = At::current()) const {
    q = tagged(q, tags::query_proj, at);
    return attend_over(q, {}, {}, {}, o, at);
  }

  // Depthwise convolution over time of x[B,T,C] with w[C,K] and bias[C] (may be empty). Declares
  // the decode state for the last (K - 1) * dilation tokens.
  Tensor causal_conv1d(Tensor x, Tensor w, Tensor bias, const ConvolveOptions& o = {},
                       At at = At::current()) const {
    const std::int64_t kept = (w.dim(1, at) - 1) * o.dilation;
    State window;
    if (kept > 0)
      window = scope_.state(LAMINA_STATE_CONV_WINDOW, o.state, {x.dim(2, at), kept},
                            {.axes = {axis::conv, axis::none}}, at);
    window.build = scope_.build();
    return emit_all<Op::causal_conv1d>(std::array{x, w, bias}, causal_conv1d_attrs(o), window, at)
        .front();
  }

  // The gated delta rule: maps q, k[B,T,K,H], v[B,T,N,Hv], g, beta[B,T,N] to [B,T,N,Hv]. Declares
  // the decode state, one matrix [H,Hv] per head.
  Tensor gated_delta_rule(Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta,
                          const DeltaRuleOptions& o = {}, At at = At::current()) const {
    State matrix = matrix_state(o.state, k, v, at);
    return emit_all<Op::gated_delta_rule>(std::array{q, k, v, g, beta}, gated_delta_rule_attrs(o),
                                          matrix, at)
        .front();
  }

  // Token shift: x[B,T,C] of the token `tokens` places earlier; zeros before the start of the
  // document. Declares the decode state for those tokens.
  Tensor previous(Tensor x, std::int64_t tokens = 1, std::string_view state = "previous",
                  At at = At::current()) const {
    const std::int64_t channels = x.dim(2, at);
    Tensor first = constant(scope_, {.shape = {channels, 1}, .value = 1}, at);
    Tensor rest = constant(scope_, {.shape = {channels, tokens}}, at);
    Tensor taps = cast_like(concat({first, rest}, 1, at), x, at);
    return causal_conv1d(x, taps, {}, {.state = state}, at);
  }

  // y_t = a_t y_(t-1) + b_t for a, b[B,T,C], in f32. Declares the decode state for y.
  Tensor linear_scan(Tensor a, Tensor b, std::string_view state = "recurrent",
                     At at = At::current()) const {
    State kept = scope_.state(
        LAMINA_STATE_RECURRENT, state, {b.dim(2, at)},
        {.axes = {LAMINA_AXIS_RECURRENT_HEADS}, .flags = LAMINA_STATE_FLAG_NO_QUANTIZE}, at);
    return sdk::linear_scan(a, b, kept, at);
  }

  // S = diag(exp(g)) S (+ a outer (b^T S)) + k outer v, y = S^T q: maps q, k, a, b[B,T,K,H],
  // v[B,T,N,Hv], g[B,T,N] or [B,T,N,H] to [B,T,N,Hv]. docs/beyond_attention.md lists the published
  // models that use it. Declares the decode state, one matrix [H,Hv] per head.
  Tensor matrix_scan(Tensor q, Tensor k, Tensor v, Tensor g, const ScanMatrixOptions& o = {},
                     At at = At::current()) const {
    State matrix = matrix_state(o.state, q, v, at);
    return emit_all<Op::matrix_scan>(std::array{q, k, v, g, o.a, o.b}, matrix_scan_attrs(o), matrix,
                                     at)
        .front();
  }

  // Custom recurrence: body(carries, tokens) -> TokenResults for the inputs of one token, made of
  // ordinary ops and traced once. Returns the results of all tokens, [B,T,...]. Declares a decode
  // state for each carry. ext/time_region.h lists the rules for a body.
  template <class Body>
  std::vector<Tensor> scan_tokens(const TimeRegion& region, const Body& body,
                                  At at = At::current()) const {
    return detail::scan_tokens(scope_, region, body, at);
  }

  // Multi-head latent attention: maps q[B,T,N,Hn+Hr], latent[B,T,R], k_rope[B,T,Hr],
  // w_kv[N(Hn+Hv),R] to [B,T,N,Hv]. Declares the decode state for latent and k_rope.
  Tensor latent_attention(Tensor q, Tensor latent, Tensor k_rope, Tensor w_kv,
                          const AttendLatentOptions& o = {}, At at = At::current()) const {
    State kept = scope_.state(LAMINA_STATE_LATENT, o.state, {latent.dim(2, at), k_rope.dim(2, at)},
                              {.axes = {LAMINA_AXIS_CACHE_DIM, LAMINA_AXIS_CACHE_DIM}}, at);
    Tensor y = emit_all<Op::latent_attention>(std::array{q, latent, k_rope, w_kv, o.mask},
                                              latent_attention_attrs(o), kept, at)
                   .front();
    return tagged(y, tags::attention_out, at);
  }

  // Scores of an indexer: maps q[B,T,I,H], k[B,S,H], weights f32[B,T,I] to f32[B,T,S]. Declares the
  // decode state for k, one slot per `stride` tokens; while decoding S is the number of slots.
  Tensor index_scores(Tensor q, Tensor k, Tensor weights, const IndexScoresOptions& o = {},
                      At at = At::current()) const {
    State kept = scope_.state(LAMINA_STATE_INDEX_KEYS, o.state, {k.dim(2, at)},
                              {.axes = {LAMINA_AXIS_CACHE_DIM}, .stride = o.stride}, at);
    Tensor scores =
        emit_all<Op::index_scores>(std::array{q, k, weights}, Attrs<Op::index_scores>{}, kept, at)
            .front();
    return tagged(scores, tags::indexer_scores, at);
  }

  // Pools each window to one row: maps values, gates[B,T,D] (2 D channels with overlap, see
  // ops.def) and bias[ratio,D] to [B,W,D]. Declares the decode state for the tokens of unfinished
  // windows.
  Tensor window_pool(Tensor values, Tensor gates, Tensor bias, const Windows& windows,
                     const WindowPoolOptions& o = {}, At at = At::current()) const {
    const std::int64_t kept = (o.overlap ? 2 : 1) * windows.ratio - 1;
    State window;
    if (kept > 0)
      window = scope_.state(LAMINA_STATE_CONV_WINDOW, o.state, {2 * values.dim(2, at), kept},
                            {.axes = {axis::conv, axis::none}}, at);
    window.build = scope_.build();
    return sdk::window_pool(values, gates, bias, windows, o.overlap, window, at);
  }

  // Attention over the last tokens and over entries of windows: maps q[B,T,N,D], kv[B,T,D],
  // entries[B,W,D], sinks[N] to [B,T,N,D]. scores f32[B,T,W] choose among the entries; they come
  // from index_scores() with the stride of the windows. Declares the decode state for kv and
  // entries.
  Tensor compressed_attention(Tensor q, Tensor kv, Tensor entries, const Windows& windows,
                              const CompressedAttentionOptions& o, Tensor scores = {},
                              Tensor sinks = {}, std::string_view state = "kv",
                              At at = At::current()) const {
    q = tagged(q, tags::query_proj, at);
    kv = tagged(kv, tags::key_proj, at);
    State kept = scope_.state(LAMINA_STATE_KV, state, {1, kv.dim(2, at)},
                              {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM},
                               .window = o.window,
                               .stride = windows.ratio},
                              at);
    Tensor y = sdk::compressed_attention(q, kv, entries, windows, positions_BT, o, kept, scores,
                                         sinks, at);
    return tagged(y, tags::attention_out, at);
  }

  // Adds an auxiliary loss to the training objective: a scalar, multiplied by the value of
  // weight_key.
  void loss(std::string_view name, Tensor value, const LossOptions& o = {},
            At at = At::current()) const {
    add_auxiliary(LAMINA_AUXILIARY_LOSS, name, value, {}, o.weight_key,
                  o.mean ? LAMINA_REDUCE_MEAN : LAMINA_REDUCE_SUM, at);
  }
  // Adds sum(mean(a) * mean(b)) as a loss; means are over all layers that add this name.
  void pooled_loss(std::string_view name, Tensor a, Tensor b, std::string_view weight_key = {},
                   At at = At::current()) const {
    add_auxiliary(LAMINA_AUXILIARY_LOSS, name, a, b, weight_key, LAMINA_REDUCE_MEAN, at);
  }
  // Reports a value of any shape as a metric of each layer.
  void metric(std::string_view name, Tensor value, Reduce reduce = Reduce::mean,
              At at = At::current()) const {
    add_auxiliary(LAMINA_AUXILIARY_METRIC, name, value, {}, {}, static_cast<std::uint32_t>(reduce),
                  at);
  }
  // Changes parameter `name` of `s` after the optimizer's step, by a value of its shape, with the
  // rate in rate_key (empty = 1).
  void update(const Scope& s, std::string_view name, Tensor value, Update rule,
              std::string_view rate_key = {}, At at = At::current()) const {
    const std::string param =
        s.path().empty() ? std::string(name) : s.path() + "." + std::string(name);
    const lamina_where_t where = to_where(at);
    lamina_update_t out{};
    out.size = sizeof out;
    out.rule = static_cast<std::uint32_t>(rule);
    out.param = to_str(param);
    out.value = value.handle;
    out.rate_key = to_str(rate_key);
    check(auxiliary(at).update(scope_.build(), &out, &where));
  }

 private:
  struct OfOp {};
  Step(const Scope& s, OfOp) : scope_(s), of_op_(true) {}

  // A lowering has no tags: the op that it defines is one value of the block.
  Tensor tagged(Tensor x, std::string_view name, At at) const {
    return of_op_ ? x : tag(x, name, at);
  }

  // The state of one matrix [H,Hv] for each head of v[B,T,N,Hv], with keys [B,T,K,H].
  State matrix_state(std::string_view name, Tensor keys, Tensor v, At at) const {
    return scope_.state(LAMINA_STATE_RECURRENT, name, {v.dim(2, at), keys.dim(3, at), v.dim(3, at)},
                        {.axes = {LAMINA_AXIS_RECURRENT_HEADS, axis::none, axis::none},
                         .flags = LAMINA_STATE_FLAG_NO_QUANTIZE},
                        at);
  }

  Tensor attend_over(Tensor q, Tensor k, Tensor v, State kv, const AttendOptions& o, At at) const {
    AttentionExtras extras{.sinks = o.sinks, .slopes = o.slopes, .bias = o.bias};
    if (o.see_images) extras.blocks = input(LAMINA_INPUT_IMAGE_BLOCKS, at);
    if (o.moba_chunk > 0)
      extras.mask = moba_mask(q, k, kv, {.chunk = o.moba_chunk, .k = o.moba_top_k}, at);
    return tagged(attention(q, k, v, kv, o, extras, at), tags::attention_out, at);
  }

  static const lamina_auxiliary_api_t& auxiliary(At at) {
    return extension<lamina_auxiliary_api_t>(LAMINA_AUXILIARY_ID, at);
  }

  static Tensor input(const Scope& s, std::uint32_t kind, At at) {
    const lamina_where_t where = to_where(at);
    Tensor out{s.build()};
    check(s.build()->api->input(s.build(), kind, &where, &out.handle));
    return out;
  }

  void add_auxiliary(std::uint32_t kind, std::string_view name, Tensor value, Tensor other,
                     std::string_view weight_key, std::uint32_t reduce, At at) const {
    const lamina_where_t where = to_where(at);
    lamina_auxiliary_t out{};
    out.size = sizeof out;
    out.kind = kind;
    out.name = to_str(name);
    out.value = value.handle;
    out.weight_key = to_str(weight_key);
    out.reduce = reduce;
    out.other = other.handle;
    check(auxiliary(at).add(scope_.build(), &out, &where));
  }

  Scope scope_;
  bool of_op_ = false;
  std::vector<Tensor> per_layer_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
