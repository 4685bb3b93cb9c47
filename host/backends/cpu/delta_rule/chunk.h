// One chunk of the gated delta rule: values that the heads of a key head share, and the corrections
// of one head. Internal to each file that includes it.
#pragma once

#include "backends/cpu/delta_rule/delta_rule.h"
#include "backends/cpu/scan/chunks.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"
#include "backends/cpu/threads/scratch.h"
#include "ops/delta_rule_numbers.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kC = kDeltaChunk;

// Returns e^x, corrected for the rounding of x to f32.
LAMINA_SIMD Float exp_of(Double x) {
  const Float near = convert<Float>(x);
  const Float power = exp(near);
  return fma(power, convert<Float>(x - convert<Double>(near)), power);
}

constexpr float kLengthEps = static_cast<float>(ops::kDeltaLengthEps);

// Keys and queries of a chunk: k, q [C, keys] and the transpose of k [keys, C]; q includes the
// scale. Rows beyond the chunk, up to a whole vector, are zeros.
struct DeltaKeys {
  float *k, *q, *k_across;
  float *k_factors, *q_factors;  // [C]: factors by which rows were multiplied
  float *kk, *qk;                // [C, C]: k k^T, q k^T

  DeltaKeys(const DeltaSizes& s, Arena& memory)
      : k(memory.take<float>(s.key_rows)),
        q(memory.take<float>(s.key_rows)),
        k_across(memory.take<float>(s.key_rows)),
        k_factors(memory.take<float>(kC)),
        q_factors(memory.take<float>(kC)),
        kk(memory.take<float>(DeltaSizes::kSquare)),
        qk(memory.take<float>(DeltaSizes::kSquare)) {}

  void load_rows(const DeltaRule& p, const DeltaSizes& s, std::int64_t b, std::int64_t head,
                 const TokenChunk& chunk, const ConstNumbers& from, float scale, float* to,
                 float* factors) {
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      const std::int64_t row = (b * p.tokens + chunk.t + i) * p.key_heads + head;
      float* x = to + i * s.keys;
      load_row(from.data, from.dtype, row * p.key_width, p.key_width, s.keys, x);
      factors[i] = scale;
      if (p.normalize) factors[i] *= one_over_root(dot(x, x, s.keys) + kLengthEps);
      times(x, factors[i], s.keys, x);
    }
    for (std::int64_t i = chunk.size; i < chunk.padded(); ++i) clear(to + i * s.keys, s.keys);
  }

  void prepare(const DeltaRule& p, const DeltaSizes& s, std::int64_t b, std::int64_t head,
               const TokenChunk& chunk) {
    load_rows(p, s, b, head, chunk, p.k, 1, k, k_factors);
    load_rows(p, s, b, head, chunk, p.q, p.scale, q, q_factors);
    transpose(k, chunk.padded(), s.keys, s.keys, k_across, kC);
    const Size3 size{chunk.size, chunk.padded(), s.keys};
    multiply(size, {k, s.keys}, k_across, kk, kC, Store::scaled);
    multiply(size, {q, s.keys}, k_across, qk, kC, Store::scaled);
  }
};

// One head in a chunk.
struct DeltaHead {
  float *beta, *decay, *rest;  // [C]: beta, exp(G_i), exp(G_C - G_i)
  double* sums;                // [C]: G_i, in f64 for the precision of their differences
  float* u;                    // [C, values]: the corrections
  float* l;                    // [C, C]: minus the effect of earlier corrections on later ones
  float* m;                    // [C, C]: the effect of the corrections on y
  float* k_decayed;            // [C, keys]
  float* column_factors;       // [values]: exp(G_C)

  DeltaHead(const DeltaSizes& s, Arena& memory)
      : beta(memory.take<float>(kC)),
        decay(memory.take<float>(kC)),
        rest(memory.take<float>(kC)),
        sums(memory.take<double>(kC)),
        u(memory.take<float>(s.value_rows)),
        l(memory.take<float>(DeltaSizes::kSquare)),
        m(memory.take<float>(DeltaSizes::kSquare)),
        k_decayed(memory.take<float>(s.key_rows)),
        column_factors(memory.take<float>(s.values)) {}

  float total_decay(const TokenChunk& chunk) const { return decay[chunk.size - 1]; }

  void load_numbers(const DeltaRule& p, const DeltaSizes& s, std::int64_t b, std::int64_t n,
                    const TokenChunk& chunk) {
    clear(beta, 3 * kC);
    for (std::int64_t i = 0; i < kC; ++i) sums[i] = 0;
    double sum = 0;
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      const std::int64_t at = (b * p.tokens + chunk.t + i) * p.heads + n;
      beta[i] = number_at(p.beta.data, p.beta.dtype, at);
      const double g = number_at(p.g.data, p.g.dtype, at);
      sum += g < ops::kLeastDeltaDecay ? ops::kLeastDeltaDecay : g;
      sums[i] = sum;
    }
    for (std::int64_t i = 0; i < chunk.padded(); i += kLanes) {
      const Double until = load_raw<Double>(sums + i);
      store(decay + i, exp_of(until));
      store(rest + i, exp_of(splat<Double>(sum) - until));
    }
    fill(column_factors, s.values, total_decay(chunk));
  }

  // Computes the triangles l and m, and in `between`, if not null, exp(G_i - G_j) for j <= i.
  void make_triangles(const DeltaKeys& keys, const TokenChunk& chunk, float* between) {
    for (std::int64_t i = 0; i < chunk.size; ++i)
      for (std::int64_t j = 0; j < chunk.padded(); j += kLanes) {
        const std::int64_t at = i * kC + j;
        const Int below = splat<Int>(static_cast<std::int32_t>(i - j));
        const Float zero = splat(0.0f);
        const Float all = exp_of(splat<Double>(sums[i]) - load_raw<Double>(sums + j));
        const Float kept = select(lane_numbers() <= below, all, zero);
        const Float earlier = select(lane_numbers() < below, all, zero);
        store(l + at, earlier * load(keys.kk + at) * splat(-beta[i]));
        store(m + at, kept * load(keys.qk + at));
        if (between != nullptr) store(between + at, kept);
      }
  }

  // Computes u = beta (v - exp(G) k S), then subtracts the effect of earlier corrections by
  // substitution. Writes v - exp(G) k S to `raw`, if not null.
  void make_corrections(const DeltaRule& p, const DeltaSizes& s, std::int64_t b, std::int64_t n,
                        const TokenChunk& chunk, const DeltaKeys& keys, const float* state,
                        float* raw) {
    multiply({chunk.size, s.values, s.keys}, {keys.k, s.keys}, state, u, s.values, Store::scaled);
    for (std::int64_t i = 0; i < chunk.size; ++i) {
      float* row = u + i * s.values;
      const std::int64_t first = ((b * p.tokens + chunk.t + i) * p.heads + n) * p.value_width;
      times(row, -decay[i], s.values, row);
      add_row(p.v, first, p.value_width, row);
      if (raw != nullptr) copy(row, s.values, raw + i * s.values);
      times(row, beta[i], s.values, row);
    }
    for (std::int64_t i0 = 0; i0 < chunk.size; i0 += kLanes) {
      const std::int64_t i1 = chunk.size < i0 + kLanes ? chunk.size : i0 + kLanes;
      multiply({i1 - i0, s.values, i0}, {l + i0 * kC, kC}, u, u + i0 * s.values, s.values,
               Store::add);
      for (std::int64_t i = i0 + 1; i < i1; ++i) take_rows(i, i0, i, s.values, l + i * kC, 1, u);
    }
  }

  // Adds to row i of u the sum over j in [begin, end) of factors[j * stride] times row j.
  static void take_rows(std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t values,
                        const float* factors, std::int64_t stride, float* u) {
    for (std::int64_t c = 0; c < values; c += kLanes) {
      Float sum = load(u + i * values + c);
      for (std::int64_t j = begin; j < end; ++j)
        sum = fma(splat(factors[j * stride]), load(u + j * values + c), sum);
      store(u + i * values + c, sum);
    }
  }

  static void add_row(const ConstNumbers& x, std::int64_t first, std::int64_t n, float* to) {
    const auto add = [&](const auto* from) {
      for_lanes(n, [&](std::int64_t i, int count) {
        store(to + i, load(to + i) + load_some(from + i, count));
      });
    };
    if (x.dtype == DType::f32)
      add(static_cast<const float*>(x.data) + first);
    else
      add(static_cast<const bfloat16*>(x.data) + first);
  }

  void decay_keys(const DeltaSizes& s, const TokenChunk& chunk, const DeltaKeys& keys) {
    for (std::int64_t i = 0; i < chunk.size; ++i)
      times(keys.k + i * s.keys, rest[i], s.keys, k_decayed + i * s.keys);
  }

  // Computes the state after the chunk.
  void advance(const DeltaSizes& s, const TokenChunk& chunk, const DeltaKeys& keys, float* state) {
    decay_keys(s, chunk, keys);
    multiply({s.keys, s.values, chunk.size}, across(k_decayed, s.keys), u, state, s.values,
             Store::rescaled, column_factors);
  }
};

}  // namespace
}  // namespace lamina::cpu
