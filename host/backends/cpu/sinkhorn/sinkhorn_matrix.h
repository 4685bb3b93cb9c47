// What sinkhorn and sinkhorn_grad share: small matrices [k, k], one behind the other.
#pragma once

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

constexpr std::int64_t kMostStreams = 16;

// Each row becomes its softmax + eps.
template <typename Wide>
void softmax_rows(Wide* m, std::int64_t k, Wide eps) {
  for (Wide* row = m; row < m + k * k; row += k) {
    const Wide top = *std::max_element(row, row + k);
    Wide sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum += row[j] = std::exp(row[j] - top);
    for (std::int64_t j = 0; j < k; ++j) row[j] = row[j] / sum + eps;
  }
}

inline Verdict has_small_matrices(const NodeView& n) {
  const std::int64_t k = n.type(0).dim(n.type(0).ndim() - 1);
  if (k <= kMostStreams) return Verdict::yes();
  return Verdict::no("matrices are larger than 16 x 16");
}

}  // namespace lamina::cpu
