// The online softmax of attention of decoding. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_memory.h"

namespace lamina::cpu {
namespace {

// T and S: as for DecodeSums.
template <class V, class T, bool kPairs, class S>
struct DecodeSoftmax {
  using F = typename V::F;
  using I = typename V::I;
  using Memory = DecodeMemory<V, T, kPairs, S>;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Run = DecodeRun;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;
  static constexpr std::int64_t kElements = Sums::kElements;

  // Returns the bias of slots [j, j + lanes) of the step for row i.
  static F bias_of_slots(const Run& r, const Scratch& s, const RowMasks& masks, std::int64_t i,
                         std::int64_t j) {
    const std::int64_t row = i % r.sizes.rows, group = r.sizes.group;
    const std::int64_t n = i / r.sizes.rows * group + row % group;
    const float* table[L];
    for (int lane = 0; lane < L; ++lane)
      table[lane] = r.bias.table ? r.bias.table + n * r.bias.distances : nullptr;
    return bias_at<V>(
        r.bias,
        distance_of<V>(V::set_int(masks.q_position(row / group)), V::load_int(s.position + j)),
        V::set(r.bias.slopes ? r.bias.slopes[n] : 0), table);
  }

  // Performs one step of online softmax: turns a row's logits into weights and rescales the row's
  // sums so far.
  template <class Requests>
  static void update(const Run& r, const Scratch& s, const RowMasks& masks, bool open,
                     std::int64_t i, std::int64_t key, std::int64_t count, Requests& next) {
    const std::int64_t lines = divide_up(r.lines, 32 * r.sizes.rows);
    float* scores = s.scores + i * kDecodeKeys;
    F max = V::set(s.max[i]);
    for (std::int64_t j = 0; j < count; j += L) {
      next.ask(lines);
      F x = V::load(scores + j) * V::set(r.logits.score);
      if constexpr (kIsNumber<S>) x *= V::load(s.k_scale + i / r.sizes.rows * kDecodeKeys + j);
      if (r.logits.cap != 0) x = V::tanh(x) * V::set(r.logits.cap);
      if (r.bias.any()) x += bias_of_slots(r, s, masks, i, j);
      if (!open) {
        const std::int32_t q = masks.q_position(i % r.sizes.rows / r.sizes.group);
        const I k = V::load_int(s.position + j);
        I ok = k != V::set_int(kNoPosition);
        if (r.rule.causal || r.rule.window > 0) ok &= k <= V::set_int(q);
        if (r.rule.window > 0) ok &= V::set_int(q) - k < V::set_int(r.rule.window);
        if (r.rule.chunk > 0) ok &= V::load_int(s.chunk + j) == V::set_int(q / r.rule.chunk);
        if (masks.keep) {
          const std::int64_t row = i % r.sizes.rows, group = r.sizes.group;
          const std::int64_t head = i / r.sizes.rows * group + row % group;
          const std::uint8_t* keep =
              masks.keep + head * masks.keep_head + row / group * masks.capacity + key + j;
          alignas(64) std::int32_t kept[L];
          for (int lane = 0; lane < L; ++lane) kept[lane] = j + lane < count && keep[lane] ? -1 : 0;
          ok &= V::load_int(kept);
        }
        x = V::select(ok, x, V::set(kMasked));
      }
      V::store(scores + j, x);
      max = V::max(max, x);
    }
    max = V::max_lane(max);
    const F used = V::select(max < V::set(kEmpty), F{}, max);
    const F alpha = V::template exp2<kDegree>(V::set(s.max[i]) - used);
    F sum = F{}, p[kDecodeKeys / L];
#pragma GCC unroll 8
    for (std::int64_t j = 0; j < kDecodeKeys; j += L) {
      next.ask(lines);
      F& of_slots = p[j / L];
      of_slots = j < count ? V::template exp2<kDegree>(V::load(scores + j) - used) : F{};
      sum += of_slots;
      if constexpr (kIsNumber<S> && !Sums::kInBlocks) of_slots *= V::load(s.v_scale + j);
    }
    Sums::store_weights(p, s.weights + i * kDecodeKeys);
    s.max[i] = max[0];
    s.sum[i] = s.sum[i] * alpha[0] + V::sum_lanes(sum)[0];
    if (alpha[0] == 1) return;
    float* o = s.o + i * r.v_vectors * kElements;
    for (std::int64_t j = 0; j < r.v_vectors * kElements; j += L)
      V::store(o + j, V::load(o + j) * alpha);
  }
};

}  // namespace
}  // namespace lamina::cpu
