// The online softmax of the forward pass of attention. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/forward_memory.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

template <class V, class T, bool kPairs>
struct ForwardSoftmax {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  using Memory = ForwardMemory<V, T, kPairs>;
  using Block = typename Memory::Block;
  using Scratch = typename Memory::Scratch;
  using Run = ForwardRun;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;

  static void rescale(const Scratch& s, Block& block, std::int64_t v_dim) {
    for (std::int64_t h = 0; h < v_dim; ++h)
      for (std::int64_t lane = 0; lane < block.side.cells * kCell; lane += L) {
        float* o = block.o_across + h * kTile + lane;
        V::store(o, V::load(o) * V::load(s.alpha + lane));
      }
  }

  // Caps, biases and masks the logits of one vector of rows, then turns them into probabilities.
  static void softmax_lanes(const Run& r, Scratch& s, const OpenCells& open, Block& block,
                            std::int64_t lane) {
    const std::int64_t cell = lane / kCell;
    const F old_max = V::load(block.max + lane);
    F max = old_max;
    for (std::int64_t i = 0; i < s.keys.cells; ++i) {
      if (cell < open.first[i] || cell >= open.last[i]) continue;
      float* x = s.scores + i * kCell * kTile + lane;
      if (s.k_scale)
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile, V::load(x + j * kTile) * V::set(s.k_scale[i * kCell + j]));
      if (r.logits.cap != 0)
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile, V::tanh(V::load(x + j * kTile)) * V::set(r.logits.cap));
      if (r.bias.any())
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile,
                   V::load(x + j * kTile) + bias_of_rows<V>(r.bias, block.bias, block.side, s.keys,
                                                            lane, i * kCell + j));
      if (open.partial[i] >> cell & 1)
        for (std::int64_t j = 0; j < kCell; ++j)
          V::store(x + j * kTile, mask_logits<V>(r.rule, block.side, s.keys, s.kept, lane,
                                                 i * kCell + j, V::load(x + j * kTile)));
      for (std::int64_t j = 0; j < kCell; ++j) max = V::max(max, V::load(x + j * kTile));
    }
    const F used_max = V::select(max < V::set(kEmpty), F{}, max);
    const F alpha = V::template exp2<kDegree>(old_max - used_max);
    F sum = V::load(block.sum + lane) * alpha, sum_odd = F{};
    for (std::int64_t i = 0; i < s.keys.cells; ++i) {
      if (cell < open.first[i] || cell >= open.last[i]) continue;
      const float* x = s.scores + i * kCell * kTile + lane;
      Word* p = s.probabilities + i * Ops::kCellDepth * kTile + lane;
      for (std::int64_t j = 0; j < kCell; j += 2) {
        F even = V::template exp2<kDegree>(V::load(x + j * kTile) - used_max);
        F odd = V::template exp2<kDegree>(V::load(x + (j + 1) * kTile) - used_max);
        sum += even;
        sum_odd += odd;
        if (s.v_scale) {
          even *= V::set(s.v_scale[i * kCell + j]);
          odd *= V::set(s.v_scale[i * kCell + j + 1]);
        }
        if constexpr (kPairs) {
#if defined(__AVX512BF16__)
          store_pairs(p + j / 2 * kTile, even, odd);
#endif
        } else {
          V::store(p + j * kTile, even);
          V::store(p + (j + 1) * kTile, odd);
        }
      }
    }
    V::store(block.max + lane, max);
    V::store(block.sum + lane, sum + sum_odd);
    V::store(s.alpha + lane, alpha);
  }
};

}  // namespace
}  // namespace lamina::cpu
