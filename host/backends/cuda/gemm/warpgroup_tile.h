// A tile of a product by warpgroups, for bf16 on compute capability 9.0: gpu/warpgroup.h. Bound by
// operations for groups of many rows, and by the bytes of the matrices for few.
//
// A block of two warpgroups computes kRows x 128 sums: each has 64 rows and 128 columns of 128
// rows, or 64 columns of 64 rows. Panels of 64 values of k go through three places in shared
// memory: one is copied, one multiplied, and one may still be multiplied by the other warpgroup.
// Sums are in rising order of k, in steps of 16, so that neither the number of rows nor of columns
// changes their bits.
#pragma once

#include "backends/cuda/gemm/mma_tile.h"
#include "backends/cuda/gpu/warpgroup.h"

namespace lamina::cuda {

// The shared memory of one operand: 64 rows or columns after the other.
template <int kOuter, bool kAlongK>
struct WarpgroupPanel {
  static constexpr int kPart = 64 * gpu::kSwizzledRow;  // numbers of 64 rows or columns
  static constexpr int kSize = kOuter / 64 * kPart;
  static_assert(kWarpgroupDepth == 64);

  // Starts copying the panel at (first, k).
  template <typename Operand>
  static LAMINA_GPU_FUNCTION void copy(const Operand& x, int first, int k,
                                       gpu::Shared<gpu::bfloat16> to) {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kSize / kMmaUnit; i += kMmaThreads) {
      const int n = i + gpu::thread_index();
      const int part = n / (kPart / kMmaUnit), row = n / 8 % 64, unit = n % 8;
      const int outer = first + part * 64;
      x.copy((kAlongK ? outer : k) + row, (kAlongK ? k : outer) + unit * kMmaUnit,
             to + (part * kPart + gpu::swizzled(row, unit)));
    }
  }

  static LAMINA_GPU_FUNCTION gpu::MatrixDescriptor<kAlongK> matrix(gpu::Shared<gpu::bfloat16> panel,
                                                                   int part) {
    return gpu::describe_matrix<kAlongK>(panel + part * kPart, kPart * 2);
  }
};

template <int kRows>
class WarpgroupTile {
  static constexpr bool kByRows = kRows == 128;  // the parts of the warpgroups
  static constexpr int kColumns = kByRows ? kMmaColumns : kMmaColumns / 2;

 public:
  LAMINA_GPU_FUNCTION WarpgroupTile() { sums_.clear(); }

  // Adds the products over `depth` of the tile of a and b that begins at (row, column).
  template <typename A, typename B>
  LAMINA_GPU_FUNCTION void multiply(const A& a, const B& b, int row, int column, int depth) {
    using PanelA = WarpgroupPanel<kRows, A::along_k>;
    using PanelB = WarpgroupPanel<kMmaColumns, B::along_k>;
    constexpr int kPlace = PanelA::kSize + PanelB::kSize;
    static_assert(kWarpgroupPlaces * kPlace * 2 == kWarpgroupSharedBytes<kRows>);
    const gpu::Shared<gpu::bfloat16> places = gpu::swizzled_shared();
    const auto copy = [&](int k, int place) {
      PanelA::copy(a, row, k, places + place * kPlace);
      PanelB::copy(b, column, k, places + (place * kPlace + PanelA::kSize));
      gpu::commit_copies();
    };
    const int part = warpgroup();
    if (depth > 0) copy(0, 0);
    int place = 0;
    for (int k = 0; k < depth; k += kWarpgroupDepth) {
      gpu::wait_copies<0>();
      gpu::fence_async();
      gpu::sync();  // also: all have waited for the products of the next place
      const gpu::Shared<gpu::bfloat16> panels = places + place * kPlace;
      const auto of_a = PanelA::matrix(panels, kByRows ? part : 0);
      const auto of_b = PanelB::matrix(panels + PanelA::kSize, kByRows ? 0 : part);
      gpu::fence_products(sums_);
      LAMINA_GPU_UNROLL
      for (int step = 0; step < kWarpgroupDepth / 16; ++step)
        gpu::warpgroup_multiply(sums_, of_a + step, of_b + step);
      gpu::commit_products();
      place = place + 1 < kWarpgroupPlaces ? place + 1 : 0;
      if (k + kWarpgroupDepth < depth) copy(k + kWarpgroupDepth, place);
      gpu::wait_products<1>();
    }
    gpu::wait_products<0>(sums_);
  }

  // Calls fn(row, column, sum, sum of the next column) for the sums of this thread whose row and
  // first column are inside [rows, columns].
  template <typename Fn>
  LAMINA_GPU_FUNCTION void for_each(int row, int column, int rows, int columns, Fn fn) {
    const int first_row =
        row + (kByRows ? warpgroup() * 64 : 0) + gpu::warp_index() % 4 * 16 + gpu::lane() / 4;
    const int first_column = column + (kByRows ? 0 : warpgroup() * kColumns) + gpu::lane() % 4 * 2;
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) LAMINA_GPU_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int y = first_row + h * 8, x = first_column + n * 8;
      if (y < rows && x < columns) fn(y, x, sums_[n][2 * h], sums_[n][2 * h + 1]);
    }
  }

 private:
  static LAMINA_GPU_FUNCTION int warpgroup() { return gpu::thread_index() / gpu::kWarpgroupSize; }

  gpu::Accumulator<kColumns> sums_;
};

}  // namespace lamina::cuda
