// Several residual streams instead of one, mixed before and after every sub-layer. DeepSeek-AI,
// mHC: manifold-constrained hyper-connections, 2025; Zhu et al., Hyper-connections, 2024.
//
//   x_BTKD = hyper_connection(s / "mhc_attention", x_BTKD, {.streams = 4}, [&](Tensor x_BTD) {
//     return self_attention(s / "attention", rms_norm(s / "attention_norm", x_BTD, eps), step,
//     ...);
//   });
//
// The streams [B, T, K, D] are a carry: an entry block makes them with expand_streams(), an exit
// block ends them with sum_streams() or weigh_streams().
#pragma once

#include "lamina/sdk/layers.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct HyperConnectionOptions {
  std::int64_t streams = 1;      // K
  std::int64_t iterations = 20;  // of the Sinkhorn-Knopp algorithm
  double eps = 1e-6;             // added to weights and divisors
  double norm_eps = 1e-6;
  bool norm_weight = true;  // the norm of the streams has a gain
};

// x[B, T, D] as K equal streams [B, T, K, D].
inline Tensor expand_streams(Tensor x_BTD, std::int64_t streams, At at = At::current()) {
  const Dims shape = x_BTD.shape(at);
  return broadcast(reshape(x_BTD, {shape[0], shape[1], 1, shape[2]}, at),
                   {shape[0], shape[1], streams, shape[2]}, at);
}
inline Tensor sum_streams(Tensor x_BTKD, At at = At::current()) {
  return reduce_sum(x_BTKD, {.dims = {2}}, at);
}

namespace hyper {

// All streams of a token as one vector, normed: [B, T, K D].
inline Tensor flat_norm(const Scope& s, Tensor x_BTKD, const HyperConnectionOptions& o, At at) {
  const Dims shape = x_BTKD.shape(at);
  Tensor flat = reshape(x_BTKD, {shape[0], shape[1], shape[2] * shape[3]}, at);
  if (o.norm_weight) return rms_norm(s / "norm", flat, o.norm_eps, at);
  return rms_norm(flat, Tensor{}, {.eps = o.norm_eps}, at);
}

// scale * x + base.
inline Tensor scaled(Tensor x, Tensor scale, Tensor base, At at) {
  return add(mul(widen(x, at), widen(scale, at), at), widen(base, at), at);
}

// sum over streams of weight[B, T, K] x[B, T, K, D].
inline Tensor weighted_sum(Tensor weight_BTK, Tensor x_BTKD, At at) {
  const Dims shape = x_BTKD.shape(at);
  Tensor weight = reshape(weight_BTK, {shape[0], shape[1], shape[2], 1}, at);
  Tensor wide = mul(widen(x_BTKD, at), weight, at);
  return cast_like(reduce_sum(wide, {.dims = {2}}, at), x_BTKD, at);
}

}  // namespace hyper

// One sub-layer: `branch` maps [B, T, D] to [B, T, D]. Owns "fn.weight" [K (K + 2), K D], "base"
// and "scale" [3] of the weights into the branch, out of it, and between streams, and "norm".
template <class Branch>
Tensor hyper_connection(const Scope& s, Tensor x_BTKD, const HyperConnectionOptions& o,
                        Branch branch, At at = At::current()) {
  const std::int64_t k = o.streams;
  const Dims shape = x_BTKD.shape(at);
  Tensor flat = hyper::flat_norm(s, x_BTKD, o, at);
  Tensor fn = s.param("fn.weight", {k * (k + 2), k * shape[3]},
                      {.axes = {axis::mhc, axis::embed}, .init = init::fan_in()}, at);
  Tensor base = s.param("base", {k * (k + 2)}, {.axes = {axis::mhc}, .role = Role::bias}, at);
  Tensor scale = s.param(
      "scale", {3}, {.axes = {axis::none}, .role = Role::scalar, .init = init::constant(0.01)}, at);
  Tensor maps = linear(flat, fn, {}, at);
  auto part = [&](std::int64_t i, std::int64_t start, std::int64_t size) {
    return hyper::scaled(slice(maps, {.dim = 2, .start = start, .size = size}, at),
                         slice(scale, {.dim = 0, .start = i, .size = 1}, at),
                         slice(base, {.dim = 0, .start = start, .size = size}, at), at);
  };
  Tensor into = shift(sigmoid(part(0, 0, k), at), o.eps, at);
  Tensor out_of = sdk::scale(sigmoid(part(1, k, k), at), 2, at);
  Tensor between = sinkhorn(reshape(part(2, 2 * k, k * k), {shape[0], shape[1], k, k}, at),
                            {.iterations = o.iterations, .eps = o.eps}, at);

  Tensor y = branch(hyper::weighted_sum(into, x_BTKD, at));
  Tensor mixed = matmul(between, widen(x_BTKD, at), {.transpose_a = true}, {}, at);
  Tensor added = mul(reshape(out_of, {shape[0], shape[1], k, 1}, at),
                     widen(reshape(y, {shape[0], shape[1], 1, shape[3]}, at), at), at);
  return cast_like(add(mixed, added, at), x_BTKD, at);
}

// The streams as one, with weights that depend on them: [B, T, K, D] to [B, T, D]. Owns "fn.weight"
// [K, K D], "base" [K], "scale" [1] and "norm".
inline Tensor weigh_streams(const Scope& s, Tensor x_BTKD, const HyperConnectionOptions& o,
                            At at = At::current()) {
  const std::int64_t k = o.streams;
  Tensor fn = s.param("fn.weight", {k, k * x_BTKD.dim(3, at)},
                      {.axes = {axis::mhc, axis::embed}, .init = init::fan_in()}, at);
  Tensor base = s.param("base", {k}, {.axes = {axis::mhc}, .role = Role::bias}, at);
  Tensor scale = s.param(
      "scale", {1}, {.axes = {axis::none}, .role = Role::scalar, .init = init::constant(0.01)}, at);
  Tensor maps = linear(hyper::flat_norm(s, x_BTKD, o, at), fn, {}, at);
  Tensor weights = shift(sigmoid(hyper::scaled(maps, scale, base, at), at), o.eps, at);
  return hyper::weighted_sum(weights, x_BTKD, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
