// Hyper-connections: several residual streams instead of one, mixed around every sub-layer.
// DeepSeek-AI, mHC: manifold-constrained hyper-connections, 2025; Zhu et al., Hyper-connections,
// 2024.
//
//   x_BTKD = hyper_connection(s / "mhc_attention", x_BTKD, {.streams = 4}, [&](Tensor x_BTD) {
//     return self_attention(s / "attention", rms_norm(s / "attention_norm", x_BTD, eps), step,
//     ...);
//   });
//
// The streams [B, T, K, D] are a carry: an entry block makes them with expand_streams(), an exit
// block reduces them with sum_streams() or weigh_streams().
#pragma once

#include "lamina/sdk/layers.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct HyperConnectionOptions {
  std::int64_t streams = 1;      // K
  std::int64_t iterations = 20;  // Sinkhorn-Knopp iterations
  double eps = 1e-6;             // added to weights and divisors
  double norm_eps = 1e-6;
  bool norm_weight = true;  // the norm of the streams has a gain
  // Mix streams by a weighted mean of all K! permutation matrices, which is a doubly stochastic
  // matrix.
  bool permutations = false;
};
inline constexpr std::int64_t kMaxPermutedStreams = 5;

// Copies x[B, T, D] to K equal streams [B, T, K, D].
inline Tensor expand_streams(Tensor x_BTD, std::int64_t streams, At at = At::current()) {
  const Dims shape = x_BTD.shape(at);
  return broadcast(reshape(x_BTD, {shape[0], shape[1], 1, shape[2]}, at),
                   {shape[0], shape[1], streams, shape[2]}, at);
}
inline Tensor sum_streams(Tensor x_BTKD, At at = At::current()) {
  return reduce_sum(x_BTKD, {.dims = {2}}, at);
}

namespace hyper {

// Normalises all streams of a token as one vector: [B, T, K D].
inline Tensor flat_norm(const Scope& s, Tensor x_BTKD, const HyperConnectionOptions& o, At at) {
  const Dims shape = x_BTKD.shape(at);
  Tensor flat = reshape(x_BTKD, {shape[0], shape[1], shape[2] * shape[3]}, at);
  if (o.norm_weight) return rms_norm(s / "norm", flat, o.norm_eps, at);
  return rms_norm(flat, Tensor{}, {.eps = o.norm_eps}, at);
}

// scale * x + base, in f32.
inline Tensor scaled(Tensor x, Tensor scale, Tensor base, At at) {
  return add(mul(widen(x, at), widen(scale, at), at), widen(base, at), at);
}

// Sums weight[B, T, K] * x[B, T, K, D] over streams.
inline Tensor weighted_sum(Tensor weight_BTK, Tensor x_BTKD, At at) {
  const Dims shape = x_BTKD.shape(at);
  Tensor weight = reshape(weight_BTK, {shape[0], shape[1], shape[2], 1}, at);
  Tensor wide = mul(widen(x_BTKD, at), weight, at);
  return cast_like(reduce_sum(wide, {.dims = {2}}, at), x_BTKD, at);
}

// Returns the matrices of all permutations of k in lexicographic order, f32[k k, k!]: row i k + m
// is 1 where a permutation maps i to m.
inline Tensor permutation_matrices(const Scope& s, std::int64_t k, At at) {
  std::int64_t rest = 1;
  for (std::int64_t i = 2; i <= k; ++i) rest *= i;
  Tensor one = constant(s, {.shape = {}, .value = 1}, at);
  Tensor zero = constant(s, {.shape = {}}, at);
  // First the rank of m among the values that no earlier i has, then m itself.
  std::vector<Tensor> m_of;
  Tensor left = iota(s, {.shape = {1, rest}, .dtype = "f32", .dim = 1}, at);
  for (std::int64_t i = 0; i < k; ++i) {
    rest /= k - i;
    const double count = static_cast<double>(rest);
    m_of.push_back(floor(scale(shift(left, 0.5, at), 1 / count, at), at));
    left = left - scale(m_of.back(), count, at);
  }
  for (std::size_t i = m_of.size(); i-- > 0;)
    for (std::size_t j = i + 1; j < m_of.size(); ++j)
      m_of[j] = m_of[j] + select(less(m_of[j], m_of[i], at), zero, one, at);
  std::vector<Tensor> rows;
  Tensor streams = iota(s, {.shape = {k, 1}, .dtype = "f32"}, at);
  for (Tensor m : m_of) rows.push_back(select(equal(m, streams, at), one, zero, at));
  return concat(rows, 0, at);
}

}  // namespace hyper

// Wraps one sub-layer, `branch`, which maps [B, T, D] to [B, T, D]. Owns "fn.weight" [K (K + 2), K
// D], "base" and "scale" [3] of the weights into the branch, out of it and between streams, and
// "norm". With permutations the last part has K! rows instead of K K. "fn.weight" stays plain under
// --quantize.
template <class Branch>
Tensor hyper_connection(const Scope& s, Tensor x_BTKD, const HyperConnectionOptions& o,
                        Branch branch, At at = At::current()) {
  const std::int64_t k = o.streams;
  const Dims shape = x_BTKD.shape(at);
  Tensor permuted;
  if (o.permutations) permuted = hyper::permutation_matrices(s, k, at);
  const std::int64_t mixing = o.permutations ? permuted.dim(1, at) : k * k;
  Tensor flat = hyper::flat_norm(s, x_BTKD, o, at);
  Tensor fn = s.unquantized().param("fn.weight", {2 * k + mixing, k * shape[3]},
                                    {.axes = {axis::mhc, axis::embed}, .init = init::fan_in()}, at);
  Tensor base = s.param("base", {2 * k + mixing}, {.axes = {axis::mhc}, .role = Role::bias}, at);
  Tensor scale = s.param(
      "scale", {3}, {.axes = {axis::none}, .role = Role::scalar, .init = init::constant(0.01)}, at);
  Tensor maps = linear(flat, fn, {}, at);
  auto part = [&](std::int64_t i, std::int64_t start, std::int64_t size) {
    return hyper::scaled(slice(maps, {.dim = 2, .start = start, .size = size}, at),
                         slice(scale, {.dim = 0, .start = i, .size = 1}, at),
                         slice(base, {.dim = 0, .start = start, .size = size}, at), at);
  };
  Tensor into = shift(sigmoid(part(0, 0, k), at), o.eps, at);
  Tensor out_of = tag(sdk::scale(sigmoid(part(1, k, k), at), 2, at), tags::mhc_post, at);
  Tensor between = part(2, 2 * k, mixing);
  if (o.permutations)
    between = reshape(linear(softmax(between, at), cast_like(permuted, between, at), {}, at),
                      {shape[0], shape[1], k, k}, at);
  else
    between = sinkhorn(reshape(between, {shape[0], shape[1], k, k}, at),
                       {.iterations = o.iterations, .eps = o.eps}, at);
  between = tag(between, tags::mhc_comb, at);

  Tensor y = branch(tag(hyper::weighted_sum(into, x_BTKD, at), tags::mhc_collapsed, at));
  Tensor mixed = matmul(between, widen(x_BTKD, at), {.transpose_a = true}, {}, at);
  Tensor added = mul(reshape(out_of, {shape[0], shape[1], k, 1}, at),
                     widen(reshape(y, {shape[0], shape[1], 1, shape[3]}, at), at), at);
  return cast_like(add(mixed, added, at), x_BTKD, at);
}

// Reduces streams [B, T, K, D] to [B, T, D] by input-dependent weights. Owns "fn.weight" [K, K D],
// "base" [K], "scale" [1] and "norm".
inline Tensor weigh_streams(const Scope& s, Tensor x_BTKD, const HyperConnectionOptions& o,
                            At at = At::current()) {
  const std::int64_t k = o.streams;
  Tensor fn = s.unquantized().param("fn.weight", {k, k * x_BTKD.dim(3, at)},
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
