// Layers that own their parameters. All functions [trace].
//
//   Tensor q_BTNH = split_heads(linear(s / "wq", x_BTD, n * h, {.out = axis::heads}), n);
#pragma once

#include "lamina/sdk/layer_ops.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct LinearOptions {
  std::string_view out = axis::embed;  // logical axes of the weight [out, in]
  std::string_view in = axis::embed;
  bool bias = false;
  double init_std = 0;        // 0 = the model's
  std::string_view tag = {};  // name of the result for rematerialisation, tags::*
};

// Multiplies x[..., I] by "weight" [out, I] transposed and adds "bias" [out] if there is one.
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

struct BlockLinearOptions {
  std::int64_t blocks = 1;
  bool bias = false;
  double init_std = 0;                  // 0 = the model's
  std::string_view axis = axis::heads;  // logical axis of the blocks
};

// Multiplies each of the `blocks` equal parts of x[B, T, I] by its own matrix: "weight" [blocks, O
// / blocks, I / blocks] (+ "bias" [blocks, O / blocks]), a product with a block-diagonal matrix.
inline Tensor block_linear(const Scope& s, Tensor x, std::int64_t out, const BlockLinearOptions& o,
                           At at = At::current()) {
  const Dims shape = x.shape(at);
  if (shape.size() != 3 || o.blocks <= 0 || shape[2] % o.blocks != 0 || out % o.blocks != 0)
    raise(Error(LAMINA_ERROR_SHAPE,
                "block_linear: x must be [B, T, I], and " + std::to_string(o.blocks) +
                    " blocks must divide I and " + std::to_string(out),
                at));
  const std::int64_t in = shape[2] / o.blocks, rows = shape[0] * shape[1];
  Tensor weight = s.param("weight", {o.blocks, out / o.blocks, in},
                          {.axes = {o.axis, axis::none, axis::none},
                           .init = init::normal(o.init_std > 0 ? o.init_std : s.init_std())},
                          at);
  Tensor bias;
  if (o.bias)
    bias = s.param("bias", {o.blocks, out / o.blocks},
                   {.axes = {o.axis, axis::none}, .role = Role::bias}, at);
  Scope::Open open(s);
  Tensor parts = transpose(reshape(x, {rows, o.blocks, in}, at), {1, 0, 2}, at);
  Tensor y = transpose(matmul(parts, weight, {.transpose_b = true}, {}, at), {1, 0, 2}, at);
  if (o.bias) y = add(y, bias, at);
  return reshape(y, {shape[0], shape[1], out}, at);
}

// RMSNorm over the last dim. Owns "weight" [D], initialised so that weight + offset is 1.
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

struct GroupedRmsNormOptions {
  double eps = 1e-6;
  std::int64_t groups = 1;  // equal parts of the last dim, each with its own mean square
};

// RMSNorm over each group of the last dim. Owns "weight" [D].
inline Tensor grouped_rms_norm(const Scope& s, Tensor x, const GroupedRmsNormOptions& o,
                               At at = At::current()) {
  if (o.groups == 1) return rms_norm(s, x, o.eps, at);
  const Dims shape = x.shape(at);
  const std::int64_t width = x.dim(-1, at);
  if (o.groups < 1 || width % o.groups != 0)
    raise(Error(LAMINA_ERROR_SHAPE,
                "grouped_rms_norm: " + std::to_string(o.groups) +
                    " groups do not divide the last dim, " + std::to_string(width),
                at));
  Tensor weight = s.param("weight", {width},
                          {.axes = {axis::norm}, .role = Role::norm, .init = init::ones}, at);
  Scope::Open open(s);
  Dims grouped = shape;
  grouped.back() = o.groups;
  grouped.push_back(width / o.groups);
  Tensor y = rms_norm(reshape(widen(x, at), grouped, at), Tensor{}, {.eps = o.eps}, at);
  return cast_like(mul(reshape(y, shape, at), widen(weight, at), at), x, at);
}

// LayerNorm over the last dim. Owns "weight" [D] and, with options.bias, "bias" [D].
inline Tensor layer_norm(const Scope& s, Tensor x, const LayerNormOptions& o,
                         At at = At::current()) {
  const std::int64_t width = x.dim(-1, at);
  Tensor weight =
      s.param("weight", {width},
              {.axes = {axis::norm}, .role = Role::norm, .init = init::constant(1 - o.offset)}, at);
  Tensor bias;
  if (o.bias) bias = s.param("bias", {width}, {.axes = {axis::norm}, .role = Role::bias}, at);
  Scope::Open open(s);
  return layer_norm(x, weight, bias, o, at);
}

// Reshapes [B, T, N*H] to [B, T, N, H], and back.
inline Tensor split_heads(Tensor x, std::int64_t heads, At at = At::current()) {
  const Dims shape = x.shape(at);
  if (shape.size() != 3)
    raise(Error(LAMINA_ERROR_SHAPE,
                "split_heads: x must have 3 dims, got " + std::to_string(shape.size()), at));
  if (heads <= 0 || shape[2] % heads != 0)
    raise(Error(LAMINA_ERROR_SHAPE,
                "split_heads: the last dim of x, " + std::to_string(shape[2]) +
                    ", is not a multiple of " + std::to_string(heads) + " heads",
                at));
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads}, at);
}
inline Tensor merge_heads(Tensor x, At at = At::current()) {
  const Dims shape = x.shape(at);
  if (shape.size() != 4)
    raise(Error(LAMINA_ERROR_SHAPE,
                "merge_heads: x must have 4 dims, got " + std::to_string(shape.size()), at));
  return reshape(x, {shape[0], shape[1], shape[2] * shape[3]}, at);
}

// Returns one name for each activation of config.json: silu (swish), relu, relu2 (the square of
// relu), sigmoid, gelu, and gelu_tanh (gelu_new, gelu_pytorch_tanh, gelu_fast). Fails with
// LAMINA_ERROR_CONFIG for other names.
inline std::string_view activation_name(std::string_view hf, At at = At::current()) {
  if (hf == "swish") return "silu";
  if (hf == "gelu_new" || hf == "gelu_pytorch_tanh" || hf == "gelu_fast") return "gelu_tanh";
  if (hf == "silu" || hf == "relu" || hf == "sigmoid" || hf == "gelu" || hf == "gelu_tanh" ||
      hf == "relu2")
    return hf;
  raise(Error(LAMINA_ERROR_CONFIG,
              "'" + std::string(hf) +
                  "' is not an activation; use silu, gelu, gelu_tanh, relu, relu2 "
                  "or sigmoid",
              at));
}
// Applies the activation that config.json calls `hf`. Fails as activation_name() does.
inline Tensor activate(Tensor x, std::string_view hf, At at = At::current()) {
  const std::string_view name = activation_name(hf, at);
  if (name == "silu") return silu(x, at);
  if (name == "relu") return relu(x, at);
  if (name == "relu2") return square(relu(x, at), at);
  if (name == "sigmoid") return sigmoid(x, at);
  if (name == "gelu") return gelu(x, at);
  return gelu_tanh(x, at);
}
// activation(gate) * up.
inline Tensor gated(Tensor gate, Tensor up, std::string_view hf, At at = At::current()) {
  const std::string_view name = activation_name(hf, at);
  if (name == "relu2") return mul(activate(gate, name, at), up, at);  // the op has none
  return glu(gate, up, {.activation = name}, at);
}

struct GatedRmsNormOptions {
  double eps = 1e-6;
  std::int64_t groups = 1;
  bool norm_first = false;               // the norm is applied before the gate
  std::string_view activation = "silu";  // of the gate
};

// norm(x * activation(gate)), or norm(x) * activation(gate) with norm_first, in the type of the
// gate. Owns "weight" [D].
inline Tensor gated_rms_norm(const Scope& s, Tensor x, Tensor gate, const GatedRmsNormOptions& o,
                             At at = At::current()) {
  const GroupedRmsNormOptions norm{.eps = o.eps, .groups = o.groups};
  if (o.norm_first)
    return gated(gate, cast_like(grouped_rms_norm(s, x, norm, at), gate, at), o.activation, at);
  Tensor y = mul(widen(x, at), activate(widen(gate, at), o.activation, at), at);
  return grouped_rms_norm(s, cast_like(y, gate, at), norm, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
