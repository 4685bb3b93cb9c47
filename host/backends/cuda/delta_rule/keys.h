// The keys of gated_delta_rule, for its kernels: as matrix_scan's with k = beta k', b = k', a = -k,
// where k' is k or k divided by its length.
#pragma once

#include "backends/cuda/delta_rule/params.h"
#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/matrix_scan/recurrence.h"
#include "ops/delta_rule_numbers.h"

namespace lamina::cuda {
namespace {

inline constexpr float kLengthEps = static_cast<float>(ops::kDeltaLengthEps);

// Returns the factor by which a row of q or k is multiplied, besides the scale. Called by all lanes
// of a warp.
LAMINA_GPU_FUNCTION float length_factor(const DeltaRuleParams& p, gpu::Shared<const float> row,
                                        int width) {
  if (!p.normalize) return 1;
  float squares = 0;
  for (int h = gpu::lane(); h < width; h += gpu::kWarpSize)
    squares = gpu::fma(row[h], row[h], squares);
  return 1 / gpu::sqrt(gpu::warp_sum(squares) + kLengthEps);
}

struct DeltaKeys {
  const DeltaRuleParams& p;
  gpu::NumberReader q, k, g, beta;

  LAMINA_GPU_FUNCTION explicit DeltaKeys(const DeltaRuleParams& params)
      : p(params), q(params.q), k(params.k), g(params.g), beta(params.beta) {}

  // Returns the number of the first element of a token and key head of q or k.
  LAMINA_GPU_FUNCTION std::int64_t row(std::int64_t b, std::int64_t t,
                                       std::int64_t key_head) const {
    return ((b * p.tokens.tokens + t) * p.key_heads + key_head) * p.tokens.key_width;
  }

  // Called by all threads of the block.
  template <typename Rows>
  LAMINA_GPU_FUNCTION void load(std::int64_t b, std::int64_t t0, std::int64_t n, int count,
                                const Rows& rows, int padded) const {
    struct Item {
      float q, k, g, beta;
    };
    const std::int64_t key_head = n / (p.tokens.heads / p.key_heads);
    const auto fetch = [&](int i) {
      const std::int64_t t = t0 + i / padded,
                         number = (b * p.tokens.tokens + t) * p.tokens.heads + n;
      const int h = i % padded;
      Item item{};
      if (h >= p.tokens.key_width) return item;
      item.q = q[row(b, t, key_head) + h], item.k = k[row(b, t, key_head) + h];
      item.g = g[number], item.beta = beta[number];
      return item;
    };
    gpu::fetch_then_put(count * padded, fetch, [&](int i, const Item& item) {
      const KeyRows to = rows(i / padded);
      const int h = i % padded;
      to.q[h] = p.normalize ? item.q : p.scale * item.q;
      to.b[h] = item.k;
      to.k[h] = item.beta * item.k;
      to.decay[h] = gpu::exp(item.g);
    });
    if (!p.normalize) return;
    gpu::sync();
    for (int i = gpu::warp_index(); i < count; i += gpu::num_warps()) {
      const KeyRows to = rows(i);
      const float by_q = p.scale * length_factor(p, to.q, padded);
      const float by_k = length_factor(p, to.b, padded);
      for (int h = gpu::lane(); h < padded; h += gpu::kWarpSize) {
        to.q[h] *= by_q;
        to.b[h] *= by_k;
        to.k[h] *= by_k;
      }
    }
  }
};

}  // namespace
}  // namespace lamina::cuda
