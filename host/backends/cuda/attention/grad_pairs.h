// The pairs of queries and keys of a block of attention_grad: places in memory, visibility, and the
// gradient of one pair. Device code.
#pragma once

#include "backends/cuda/attention/place.h"

namespace lamina::cuda {

template <typename W>
struct PairGradient {
  W probability = 0;
  W dlogit = 0, dproduct = 0;  // of the biased logit, and of the product of q and k
};

// SmallInput of a row of queries: lse in units of log2, and y . dy.
template <typename W>
struct RowStats {
  W lse, dot;
};

// The logit of a pair after the cap, and the gradient by its product.
template <typename W>
LAMINA_GPU_FUNCTION PairGradient<W> pair_gradient(const LogitParams& logits,
                                                  const RowStats<W>& stats, W product, W bias,
                                                  W dprobability) {
  const W x = capped(logits, product);
  PairGradient<W> g;
  g.probability = exp2_of((x + bias) * log2_e<W>() - stats.lse);
  g.dlogit = g.probability * (dprobability - stats.dot);
  g.dproduct = g.dlogit * capped_slope(logits, x);
  return g;
}

// kOwn and kOther: rows of the own and of the other tile.
template <bool kOfKeys, int kOwn, int kOther, typename W>
class GradPairs {
 public:
  LAMINA_GPU_FUNCTION GradPairs(const AttentionGradParams& params, const BlockPlace& place)
      : p_(params), place_(place), row_(row_visibility(params.seen, params.size, place.b)) {}

  LAMINA_GPU_FUNCTION int own() const { return place_.tile; }
  LAMINA_GPU_FUNCTION Walk<kOfKeys> walk() const {
    if constexpr (kOfKeys)
      return row_walk(p_.seen, p_.size, row_, place_.kv_head, place_.tile);
    else
      return key_walk(p_.seen, p_.size, row_, place_.kv_head, place_.tile, p_.size.kv_tokens);
  }
  LAMINA_GPU_FUNCTION std::int64_t offset(bool keys, int i, int width) const {
    if (!keys) return query_offset(p_.size, place_.b, place_.kv_head, i, width);
    return ((std::int64_t{place_.b} * p_.size.kv_tokens + i) * p_.size.kv_heads + place_.kv_head) *
           width;
  }

  // Both are read by at() after the next sync. Notes of the others alternate between two places, so
  // that a warp may still read one while another writes the next.
  LAMINA_GPU_FUNCTION void note_own() const {
    if (kOfKeys)
      note_keys(place_.tile * kOwn, kOwn, 0);
    else
      note_queries(place_.tile * kOwn, kOwn, 0);
  }
  LAMINA_GPU_FUNCTION void note_other(int tile, bool odd) const {
    if (kOfKeys)
      note_queries(tile * kOther, kOther, odd ? kOther : 0);
    else
      note_keys(tile * kOther, kOther, odd ? kOther : 0);
  }

  // The pair of row `mine` of the own tile and row `other` of tile `tile`.
  LAMINA_GPU_FUNCTION PairGradient<W> at(int tile, bool odd, bool whole, int mine, int other,
                                         W product, W dprobability) const {
    const int noted = other + (odd ? kOther : 0);
    const int query = kOfKeys ? noted : mine, key = kOfKeys ? mine : noted;
    const RowStats<W> stats = this->stats()[query];
    const bool biased = has_bias(p_.logits);
    W bias = 0;
    if (!whole || biased) {
      const QueryRow q = queries()[query];
      const TokenPlace k = keys()[key];
      const int s = kOfKeys ? place_.tile * kOwn + mine : tile * kOther + other;
      if (!whole &&
          !sees_key(p_.seen, gpu::Global<const std::uint8_t>(p_.seen.keep), q, k, s, row_.num_keys))
        return {};
      if (biased) bias = bias_of<W>(p_.logits, q.head, distance_of(q.place, k));
    }
    return pair_gradient(p_.logits, stats, product, bias, dprobability);
  }
  // For the gradients of the biases.
  LAMINA_GPU_FUNCTION gpu::Shared<QueryRow> queries() const {
    LAMINA_GPU_SHARED(QueryRow, of_rows, kOfKeys ? 2 * kOther : kOwn);
    return of_rows;
  }
  LAMINA_GPU_FUNCTION gpu::Shared<TokenPlace> keys() const {
    LAMINA_GPU_SHARED(TokenPlace, of_keys, kOfKeys ? kOwn : 2 * kOther);
    return of_keys;
  }

 private:
  LAMINA_GPU_FUNCTION gpu::Shared<RowStats<W>> stats() const {
    LAMINA_GPU_SHARED(RowStats<W>, of_rows, kOfKeys ? 2 * kOther : kOwn);
    return of_rows;
  }
  LAMINA_GPU_FUNCTION void note_keys(int first, int count, int at) const {
    for (int i = gpu::thread_index(); i < count; i += gpu::num_threads())
      keys()[at + i] = key_place(p_.seen, row_, gpu::min(first + i, row_.num_keys - 1));
  }
  LAMINA_GPU_FUNCTION void note_queries(int first, int count, int at) const {
    for (int i = gpu::thread_index(); i < count; i += gpu::num_threads()) {
      queries()[at + i] = query_row(p_.seen, p_.size, row_, place_.kv_head, first + i);
      const std::int64_t stat =
          stat_offset(p_.size, place_.b, place_.kv_head, gpu::min(first + i, p_.size.rows - 1));
      stats()[at + i] = RowStats<W>{W(gpu::Global<const W>(p_.lse)[stat]) * log2_e<W>(),
                                    W(gpu::Global<const W>(p_.dots)[stat])};
    }
  }

  const AttentionGradParams& p_;
  const BlockPlace place_;
  const RowVisibility row_;
};

}  // namespace lamina::cuda
