// A tile of a product by tensor cores, for bf16 and f16 with sums in f32. Bound by operations for
// groups of many rows, and by the bytes of the matrices for few.
//
// A block of 8 warps computes kRows x 128 sums; a warp kRows / 2 x 32 of them in registers. Tiles
// of 32 values of k are copied to one half of shared memory while the other is multiplied. Rows in
// shared memory are 16 bytes longer than their values, so that the 8 rows that load_matrix reads
// together are in different banks. Sums are in rising order of k.
#pragma once

#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/tensor_cores.h"

namespace lamina::cuda {

inline constexpr int kMmaDepth = 32, kMmaPad = kMmaUnit;

// A matrix whose stored rows are `width` numbers long. kAlongK: stored rows are rows (or columns)
// of the product; otherwise they are values of k. kVectors: every row begins at a multiple of 16
// bytes and has whole units.
template <typename T, bool kAlongK, bool kVectors>
struct MmaOperand {
  gpu::Global<const T> at;
  int rows, width;

  static constexpr bool along_k = kAlongK;

  // Copies the unit at (row, column) to shared memory; zeros outside of the matrix.
  LAMINA_GPU_FUNCTION void copy(int row, int column, gpu::Shared<T> to) const {
    const bool inside = row < rows && column < width;
    if constexpr (kVectors) {
      if (inside)
        gpu::copy_async<16>(to, at + (std::int64_t{row} * width + column));
      else
        gpu::store_vector(to, 0, gpu::Vector<T, kMmaUnit>{});
    } else {
      gpu::Vector<T, kMmaUnit> unit{};
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kMmaUnit; ++i)
        if (inside && column + i < width)
          unit.values[i] = at[std::int64_t{row} * width + column + i];
      gpu::store_vector(to, 0, unit);
    }
  }
};

// The shared memory of one operand: kOuter rows or columns of kMmaDepth values.
template <int kOuter, bool kAlongK>
struct MmaPanel {
  static constexpr int kStoredRows = kAlongK ? kOuter : kMmaDepth;
  static constexpr int kWidth = kAlongK ? kMmaDepth : kOuter;
  static constexpr int kPitch = kWidth + kMmaPad;
  static constexpr int kSize = kStoredRows * kPitch;

  // Starts copying the panel at (first, k).
  template <typename T, typename Operand>
  static LAMINA_GPU_FUNCTION void copy(const Operand& x, int first, int k, gpu::Shared<T> to) {
    constexpr int kUnits = kWidth / kMmaUnit;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kStoredRows * kUnits; i += kMmaThreads) {
      const int n = i + gpu::thread_index();
      const int row = n / kUnits, column = n % kUnits * kMmaUnit;
      x.copy((kAlongK ? first : k) + row, (kAlongK ? k : first) + column,
             to + (row * kPitch + column));
    }
  }

  // Loads the fragments of 16 rows (of a) at (first, k), in the order of mma_16x8x16's registers.
  template <typename T>
  static LAMINA_GPU_FUNCTION void load_rows(gpu::Shared<T> panel, int first, int k,
                                            std::uint32_t (&out)[4]) {
    const int lane = gpu::lane(), matrix = lane / 8;
    if constexpr (kAlongK)
      gpu::load_matrix<false>(
          out, panel + ((first + lane % 8 + matrix % 2 * 8) * kPitch + k + matrix / 2 * 8));
    else
      gpu::load_matrix<true>(
          out, panel + ((k + lane % 8 + matrix / 2 * 8) * kPitch + first + matrix % 2 * 8));
  }

  // Loads the fragments of twice 8 columns (of b).
  template <typename T>
  static LAMINA_GPU_FUNCTION void load_columns(gpu::Shared<T> panel, int first, int k,
                                               std::uint32_t (&out)[4]) {
    const int lane = gpu::lane(), matrix = lane / 8;
    if constexpr (kAlongK)
      gpu::load_matrix<false>(
          out, panel + ((first + lane % 8 + matrix / 2 * 8) * kPitch + k + matrix % 2 * 8));
    else
      gpu::load_matrix<true>(
          out, panel + ((k + lane % 8 + matrix % 2 * 8) * kPitch + first + matrix / 2 * 8));
  }
};

// The sums of a warp: kTiles tiles of 16 rows times 4 tiles of 8 columns.
template <int kRows>
struct MmaSums {
  static constexpr int kTiles = kRows / 32;
  float values[kTiles][4][4] = {};
};

// Adds the products over `depth` of the tile of a and b that begins at (row, column).
template <typename T, int kRows, typename A, typename B>
LAMINA_GPU_FUNCTION void multiply_mma(const A& a, const B& b, int row, int column, int depth,
                                      MmaSums<kRows>& sums) {
  using PanelA = MmaPanel<kRows, A::along_k>;
  using PanelB = MmaPanel<kMmaColumns, B::along_k>;
  constexpr int kHalf = PanelA::kSize + PanelB::kSize;
  LAMINA_GPU_SHARED(T, panels, 2 * kHalf);
  const auto copy = [&](int k, int half) {
    PanelA::copy(a, row, k, panels + half * kHalf);
    PanelB::copy(b, column, k, panels + (half * kHalf + PanelA::kSize));
    gpu::commit_copies();
  };
  const int first_row = gpu::warp_index() / 4 * (kRows / 2);
  const int first_column = gpu::warp_index() % 4 * 32;
  if (depth > 0) copy(0, 0);
  int half = 0;
  for (int k = 0; k < depth; k += kMmaDepth, half ^= 1) {
    gpu::wait_copies<0>();
    gpu::sync();  // also: the other half is no longer in use
    if (k + kMmaDepth < depth) copy(k + kMmaDepth, half ^ 1);
    const gpu::Shared<T> a_panel = panels + half * kHalf, b_panel = a_panel + PanelA::kSize;
    LAMINA_GPU_UNROLL
    for (int l = 0; l < kMmaDepth; l += 16) {
      std::uint32_t x[MmaSums<kRows>::kTiles][4], y[2][4];
      LAMINA_GPU_UNROLL
      for (int r = 0; r < MmaSums<kRows>::kTiles; ++r)
        PanelA::load_rows(a_panel, first_row + r * 16, l, x[r]);
      LAMINA_GPU_UNROLL
      for (int c = 0; c < 2; ++c) PanelB::load_columns(b_panel, first_column + c * 16, l, y[c]);
      LAMINA_GPU_UNROLL
      for (int r = 0; r < MmaSums<kRows>::kTiles; ++r) LAMINA_GPU_UNROLL
      for (int c = 0; c < 4; ++c) {
        const std::uint32_t column_pair[2] = {y[c / 2][c % 2 * 2], y[c / 2][c % 2 * 2 + 1]};
        gpu::mma_16x8x16<T>(sums.values[r][c], x[r], column_pair);
      }
    }
  }
}

template <typename T, int kRows>
class MmaTile {
 public:
  // Adds the products over `depth` of the tile of a and b that begins at (row, column).
  template <typename A, typename B>
  LAMINA_GPU_FUNCTION void multiply(const A& a, const B& b, int row, int column, int depth) {
    multiply_mma<T>(a, b, row, column, depth, sums_);
  }
  // Calls fn(row, column, sum, sum of the next column) for the sums of this thread whose row and
  // first column are inside [rows, columns].
  template <typename Fn>
  LAMINA_GPU_FUNCTION void for_each(int row, int column, int rows, int columns, Fn fn) const {
    const int first_row = row + gpu::warp_index() / 4 * (kRows / 2) + gpu::lane() / 4;
    const int first_column = column + gpu::warp_index() % 4 * 32 + gpu::lane() % 4 * 2;
    LAMINA_GPU_UNROLL
    for (int r = 0; r < MmaSums<kRows>::kTiles; ++r) LAMINA_GPU_UNROLL
    for (int c = 0; c < 4; ++c) LAMINA_GPU_UNROLL
    for (int h = 0; h < 2; ++h) {
      const int y = first_row + r * 16 + h * 8, x = first_column + c * 8;
      if (y < rows && x < columns)
        fn(y, x, sums_.values[r][c][2 * h], sums_.values[r][c][2 * h + 1]);
    }
  }

 private:
  MmaSums<kRows> sums_;
};

// Stores two adjacent numbers of a row. `both`: the second one is in the row too.
template <typename T>
LAMINA_GPU_FUNCTION void store_pair(gpu::Global<T> y, std::int64_t at, bool vectors, bool both,
                                    float first, float second) {
  if (vectors)
    return gpu::store_vector(y, at,
                             gpu::Vector<T, 2>{{gpu::narrow<T>(first), gpu::narrow<T>(second)}});
  gpu::store(y, at, first);
  if (both) gpu::store(y, at + 1, second);
}

}  // namespace lamina::cuda
