// Layers that own their parameters, and what a block is given besides its input.
//
//   Tensor q_BTNH = split_heads(linear(s / "wq", x_BTD, n * h, {.out = axis::heads}), n);
//   Tensor o_BTNH = step.attend(q_BTNH, k_BTKH, v_BTKH, {.window = c.sliding_window});
#pragma once

#include "lamina/sdk/ops.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct LinearOptions {
  std::string_view out = axis::embed;  // logical axes of the weight [out, in]
  std::string_view in = axis::embed;
  bool bias = false;
  double init_std = 0;        // 0 = the model's
  std::string_view tag = {};  // name of the result for rematerialisation, tags::*
};

// x[..., I] times "weight" [out, I] transposed (+ "bias" [out]).
inline Tensor linear(const Scope& s, Tensor x, std::int64_t out, const LinearOptions& o = {},
                     At at = At::current()) {
  const double deviation = o.init_std > 0 ? o.init_std : s.init_std();
  Tensor weight = s.param("weight", {out, x.dim(-1, at)},
                          {.axes = {o.out, o.in}, .init = init::normal(deviation)}, at);
  Tensor bias;
  if (o.bias) bias = s.param("bias", {out}, {.axes = {o.out}, .role = Role::bias}, at);
  Scope::Open open(s);
  Tensor y = linear(x, weight, bias, at);
  return o.tag.empty() ? y : tag(y, o.tag, at);
}

// "weight" [D] starts so that weight + offset is 1.
inline Tensor rms_norm(const Scope& s, Tensor x, const RmsNormOptions& o, At at = At::current()) {
  Tensor weight =
      s.param("weight", {x.dim(-1, at)},
              {.axes = {axis::norm}, .role = Role::norm, .init = init::constant(1 - o.offset)}, at);
  Scope::Open open(s);
  return rms_norm(x, weight, o, at);
}
inline Tensor rms_norm(const Scope& s, Tensor x, double eps, At at = At::current()) {
  return rms_norm(s, x, RmsNormOptions{.eps = eps}, at);
}

// "weight" and "bias" [D].
inline Tensor layer_norm(const Scope& s, Tensor x, const LayerNormOptions& o,
                         At at = At::current()) {
  const std::int64_t width = x.dim(-1, at);
  Tensor weight =
      s.param("weight", {width},
              {.axes = {axis::norm}, .role = Role::norm, .init = init::constant(1 - o.offset)}, at);
  Tensor bias = s.param("bias", {width}, {.axes = {axis::norm}, .role = Role::bias}, at);
  Scope::Open open(s);
  return layer_norm(x, weight, bias, o, at);
}

// [B, T, N*H] as [B, T, N, H], and back.
inline Tensor split_heads(Tensor x, std::int64_t heads, At at = At::current()) {
  const Dims shape = x.shape(at);
  if (shape.size() != 3 || heads <= 0 || shape[2] % heads != 0)
    throw Error(LAMINA_ERROR_SHAPE,
                "split_heads: " + std::to_string(heads) + " heads do not divide the last of " +
                    std::to_string(shape.size()) + " dims, which must be 3",
                at);
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads}, at);
}
inline Tensor merge_heads(Tensor x, At at = At::current()) {
  const Dims shape = x.shape(at);
  if (shape.size() != 4)
    throw Error(LAMINA_ERROR_SHAPE,
                "merge_heads: x must have 4 dims, got " + std::to_string(shape.size()), at);
  return reshape(x, {shape[0], shape[1], shape[2] * shape[3]}, at);
}

// An activation by its name in config.json: silu (swish), relu, sigmoid, gelu, and the tanh form of
// gelu under its three names.
inline std::string_view activation_name(std::string_view hf, At at = At::current()) {
  if (hf == "swish") return "silu";
  if (hf == "gelu_new" || hf == "gelu_pytorch_tanh" || hf == "gelu_fast") return "gelu_tanh";
  if (hf == "silu" || hf == "relu" || hf == "sigmoid" || hf == "gelu" || hf == "gelu_tanh")
    return hf;
  throw Error(LAMINA_ERROR_CONFIG,
              "'" + std::string(hf) +
                  "' is no activation; use silu, gelu, gelu_tanh, relu or "
                  "sigmoid",
              at);
}
inline Tensor activate(Tensor x, std::string_view hf, At at = At::current()) {
  const std::string_view name = activation_name(hf, at);
  if (name == "silu") return silu(x, at);
  if (name == "relu") return relu(x, at);
  if (name == "sigmoid") return sigmoid(x, at);
  if (name == "gelu") return gelu(x, at);
  return gelu_tanh(x, at);
}

struct AttendOptions {
  double scale = 0;  // 0 = 1 / sqrt(head width)
  double soft_cap = 0;
  bool causal = true;
  std::int64_t window = 0;        // keys a query sees, itself included; 0 = all
  std::int64_t chunk = 0;         // only keys of the same chunk; 0 = all
  Tensor sinks = {};              // [N], one more logit per head
  std::string_view state = "kv";  // unique in the block
};

// What a block is given besides its input: the same in training, prefill and decoding.
class Step {
 public:
  explicit Step(const Scope& s, At at = At::current())
      : positions_BT(input(s, LAMINA_INPUT_POSITIONS, at)), scope_(s) {}

  Tensor positions_BT;  // i32, from 0 in each document

  // LAMINA_INPUT_*.
  Tensor input(std::uint32_t kind, At at = At::current()) const { return input(scope_, kind, at); }

  // Attention over what came before: q[B,T,N,H], k[B,T,K,H], v[B,T,K,Hv] to [B,T,N,Hv]. Declares
  // the decode state that keeps k and v.
  Tensor attend(Tensor q, Tensor k, Tensor v, const AttendOptions& o = {},
                At at = At::current()) const {
    q = tag(q, tags::query_proj, at);
    k = tag(k, tags::key_proj, at);
    v = tag(v, tags::value_proj, at);
    State kv = scope_.state(
        LAMINA_STATE_KV, o.state, {k.dim(2, at), k.dim(3, at), v.dim(3, at)},
        {.axes = {LAMINA_AXIS_CACHE_HEADS, LAMINA_AXIS_CACHE_DIM, LAMINA_AXIS_CACHE_DIM},
         .window = o.window,
         .chunk = o.chunk},
        at);
    Tensor y = attention(q, k, v, kv,
                         {.scale = o.scale,
                          .soft_cap = o.soft_cap,
                          .causal = o.causal,
                          .window = o.window,
                          .chunk = o.chunk},
                         o.sinks, at);
    return tag(y, tags::attention_out, at);
  }

  // Zeroes elements at random in training; `stream` tells the dropouts of one block apart.
  Tensor dropout(Tensor x, double rate, std::int64_t stream, At at = At::current()) const {
    if (rate == 0) return x;
    return sdk::dropout(x, input(LAMINA_INPUT_SEED, at), input(LAMINA_INPUT_LAYER_INDEX, at),
                        {.rate = rate, .stream = stream}, at);
  }

 private:
  static Tensor input(const Scope& s, std::uint32_t kind, At at) {
    const lamina_where_t where = to_where(at);
    Tensor out{s.build()};
    check(s.build()->api->input(s.build(), kind, &where, &out.handle));
    return out;
  }

  Scope scope_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
