// The online softmax of attention of decoding. Rows are lanes, so that no sum or maximum crosses
// lanes. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_memory.h"

namespace lamina::cpu {
namespace {

// T, kPairs and S: as for OperandsOf.
template <class V, class T, bool kPairs, class S>
struct DecodeSoftmax {
  using F = typename V::F;
  using I = typename V::I;
  using Memory = DecodeMemory<V, T, kPairs, S>;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Step = DecodeStep<S>;
  using Run = DecodeRun;
  static constexpr int L = V::kLanes;
  static constexpr int kDegree = sizeof(T) == 2 ? 4 : 6;
  static constexpr std::int64_t kElements = Sums::kElements;

  // The slots of a step from slot `key` of the cache on.
  struct Slots {
    const RowMasks& masks;
    std::int64_t key;
    bool open;  // every query may see every slot
  };

  // Performs one step of online softmax: turns the scores of all rows into weights, and rescales
  // the rows' sums so far.
  static void update(const Run& r, const Scratch& s, const Slots& slots, const Step& x) {
    if constexpr (kIsNumber<S>) read_scales(s, x);
    const std::int64_t all = x.heads * x.rows;
    for (std::int64_t lane = 0; lane < all; lane += L) update_lanes(r, s, slots, x, lane);
    for (std::int64_t i = 0; i < all; ++i) {
      if (s.rescale[i] == 1) continue;
      float* o = s.o + i * x.v_vectors * kElements;
      for (std::int64_t j = 0; j < x.v_vectors * kElements; j += L)
        V::store(o + j, V::load(o + j) * V::set(s.rescale[i]));
    }
  }

 private:
  static void read_scales(const Scratch& s, const Step& x) requires kIsNumber<S> {
    for (std::int64_t j = 0; j < x.count; ++j)
      for (std::int64_t head = 0; head < x.heads; ++head)
        s.scales[j * x.heads + head] = row_scale(x.v + j * x.v_token + head * x.v_head);
  }

  // Computes the rows of one vector, from row `lane` on. Lanes after the last row have numbers
  // without meaning.
  static void update_lanes(const Run& r, const Scratch& s, const Slots& slots, const Step& x,
                           std::int64_t lane) {
    const std::int64_t all = x.heads * x.rows;
    const F factor = V::load(s.logit_factor + lane), old = V::load(s.max + lane);
    const I key_head = V::load_int(s.key_head + lane);
    F max = old, p[kDecodeKeys];
    for (std::int64_t j = 0; j < x.count; ++j) {
      F logit = V::load(x.scores + j * all + lane) * factor;
      if (r.logits.cap != 0) logit = V::tanh(logit) * V::set(r.logits.cap);
      if (r.bias.any()) logit += bias_of_slot(r, s, lane, j);
      if (!slots.open) logit = V::select(sees(r, s, slots, lane, j), logit, V::set(kMasked));
      p[j] = logit;
      max = V::max(max, logit);
    }
    const F used = V::select(max < V::set(kEmpty), F{}, max);
    const F rescale = V::template exp2<kDegree>(old - used);
    F sum{};
    for (std::int64_t j = 0; j < x.count; ++j) {
      p[j] = V::template exp2<kDegree>(p[j] - used);
      sum += p[j];
      if constexpr (kIsNumber<S>)
        p[j] *= V::permute(V::load(s.scales + j * x.heads + lane / x.rows), key_head);
    }
    for (std::int64_t j = x.count; j < kDecodeKeys; ++j) p[j] = F{};
    V::store(x.weight_factor + lane, Sums::store_weights(p, x.count, x.weights + lane, x.lanes));
    V::store(s.max + lane, max);
    V::store(s.sum + lane, V::load(s.sum + lane) * rescale + sum);
    V::store(s.rescale + lane, rescale);
  }

  // Returns the bias of slot j of the step for L rows.
  static F bias_of_slot(const Run& r, const Scratch& s, std::int64_t lane, std::int64_t j) {
    const float* table[L];
    F slopes{};
    for (int i = 0; i < L; ++i) {
      const std::int64_t head = s.head[lane + i];
      table[i] = r.bias.table ? r.bias.table + head * r.bias.distances : nullptr;
      if (r.bias.slopes) slopes[i] = r.bias.slopes[head];
    }
    return bias_at<V>(r.bias,
                      distance_of<V>(V::load_int(s.q_position + lane), V::set_int(s.position[j])),
                      slopes, table);
  }

  // Returns -1 in the lanes of the rows that may see slot j of the step, else 0.
  static I sees(const Run& r, const Scratch& s, const Slots& slots, std::int64_t lane,
                std::int64_t j) {
    const I q = V::load_int(s.q_position + lane), k = V::set_int(s.position[j]);
    I ok = k != V::set_int(kNoPosition);
    if (r.rule.causal || r.rule.window > 0) ok &= k <= q;
    if (r.rule.window > 0) ok &= q - k < V::set_int(r.rule.window);
    if (r.rule.chunk > 0) ok &= V::set_int(s.chunk[j]) == V::load_int(s.q_chunk + lane);
    if (const RowMasks& masks = slots.masks; masks.keep) {
      alignas(64) std::int32_t kept[L];
      for (int i = 0; i < L; ++i) {
        const std::int64_t at =
            s.head[lane + i] * masks.keep_head + s.token[lane + i] * masks.capacity;
        kept[i] = masks.keep[at + slots.key + j] ? -1 : 0;
      }
      ok &= V::load_int(kept);
    }
    return ok;
  }
};

}  // namespace
}  // namespace lamina::cpu
