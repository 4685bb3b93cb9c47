// Attention biases by the distance of query and key: fixed slopes and learnt tables.
//
//   Tensor o_BTNH = step.attend(q_BTNH, k_BTNH, v_BTNH, {.slopes = alibi_slopes(s, heads)});
//   Tensor o_BTNH = step.attend(q_BTNH, k_BTNH, v_BTNH, {.bias = relative_bias(s / "bias",
//   heads)});
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lamina/sdk/ops.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// f32[N]: 2^(-8 (n + 1) / M) for the first M heads, M the largest power of two up to N; the other
// heads have the slopes halfway between the first ones. Press et al. 2022, section 3, and their
// code for other N. [trace]
inline Tensor alibi_slopes(const Scope& trace, std::int64_t heads, At at = At::current()) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t n = 0; n < heads; ++n) {
    const bool left = n >= power;
    const auto step = static_cast<double>(left ? 2 * (n - power) + 1 : n + 1);
    slopes.push_back(std::exp2(-8 * step / static_cast<double>(left ? 2 * power : power)));
  }
  return constant_data(trace, {.shape = {heads}, .values = slopes}, at);
}

struct RelativeBiasOptions {
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;  // distances from here on share the last bucket
};
// [N, max_distance + 1]: a learnt number for each head and bucket of distances. Owns "weight"
// [buckets, N]. The first half of the buckets have one distance each; the sizes of the others grow
// logarithmically. Raffel et al. 2020, section 2.1, with the buckets of a decoder. [trace]
inline Tensor relative_bias(const Scope& s, std::int64_t heads, const RelativeBiasOptions& o = {},
                            At at = At::current()) {
  const std::int64_t exact = o.buckets / 2;
  if (exact < 1 || o.max_distance <= exact)
    raise(Error(LAMINA_ERROR_ARGUMENT,
                "relative_bias: buckets must be at least 2, and max_distance above half of them",
                at));
  std::vector<double> bucket;
  // Longer distances have the last entry, too.
  for (std::int64_t d = 0; d <= o.max_distance; ++d) {
    const double octaves = std::log(static_cast<double>(std::max(d, exact)) / double(exact)) /
                           std::log(static_cast<double>(o.max_distance) / double(exact));
    const auto far = exact + static_cast<std::int64_t>(octaves * double(o.buckets - exact));
    bucket.push_back(static_cast<double>(d < exact ? d : std::min(far, o.buckets - 1)));
  }
  Tensor weight = s.param("weight", {o.buckets, heads},
                          {.axes = {axis::none, axis::heads},
                           .role = Role::embedding,
                           .init = init::normal(s.init_std())},
                          at);
  Tensor ids =
      constant_data(s, {.shape = {std::ssize(bucket)}, .dtype = "i32", .values = bucket}, at);
  return transpose(gather(weight, ids, 0, at), {1, 0}, at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
