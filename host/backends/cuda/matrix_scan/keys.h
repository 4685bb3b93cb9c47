// The keys of matrix_scan, for its kernels.
#pragma once

#include "backends/cuda/matrix_scan/params.h"
#include "backends/cuda/matrix_scan/recurrence.h"

namespace lamina::cuda {
namespace {

struct MatrixKeys {
  const MatrixScanParams& p;
  gpu::NumberReader q, k, g, a, b;

  LAMINA_GPU_FUNCTION explicit MatrixKeys(const MatrixScanParams& params)
      : p(params), q(params.q.x), k(params.k.x), g(params.g), a(params.a.x), b(params.b.x) {}

  // Returns the number of the first element of a token and head of x.
  LAMINA_GPU_FUNCTION std::int64_t row(const MatrixKeyNumbers& x, std::int64_t token,
                                       std::int64_t n) const {
    return (token * x.heads + n / (p.tokens.heads / x.heads)) * p.tokens.key_width;
  }

  struct Item {
    float q, k, g, a, b;
  };

  // Called by all threads of the block.
  template <typename Rows>
  LAMINA_GPU_FUNCTION void load(std::int64_t b_row, std::int64_t t0, std::int64_t n, int count,
                                const Rows& rows, int padded) const {
    const bool ranked = p.tokens.rank_one != RankOne::none;
    const auto fetch = [&](int i) {
      const std::int64_t token = b_row * p.tokens.tokens + t0 + i / padded;
      const std::int64_t head = token * p.tokens.heads + n;
      const int h = i % padded;
      Item item{};
      if (h >= p.tokens.key_width) return item;
      item.q = q[row(p.q, token, n) + h];
      item.k = k[row(p.k, token, n) + h];
      item.g = g[p.per_channel ? head * p.tokens.key_width + h : head];
      if (ranked) item.a = a[row(p.a, token, n) + h], item.b = b[row(p.b, token, n) + h];
      return item;
    };
    gpu::fetch_then_put(count * padded, fetch, [&](int i, const Item& item) {
      const KeyRows to = rows(i / padded);
      const int h = i % padded;
      to.q[h] = p.scale * item.q;
      to.k[h] = item.k;
      to.decay[h] = gpu::exp(item.g);
      if (ranked) to.a[h] = item.a, to.b[h] = item.b;
    });
  }
};

}  // namespace
}  // namespace lamina::cuda
