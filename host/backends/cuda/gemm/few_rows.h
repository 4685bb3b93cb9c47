// Products of few rows with large matrices, as in decoding: y = x w^T (+ bias). Bound by the bytes
// of w, which are read once for up to 8 rows.
//
// A warp computes kOutputs rows of w. Its lanes read units of 8 adjacent values (16 bytes of bf16),
// 256 values per step, and have 4 units under way; x is in shared memory, a chunk at a time. The
// order of a sum depends on k alone: a lane adds its units in rising order, and the warp adds its
// lanes as a tree. So the bits of a row depend neither on the number of rows nor on the other
// matrices, groups or rows of the launch.
//
// Rows may be in groups, each with a separate matrix: the experts of a mixture. A block finds its
// group itself; matrices of groups without rows are not read.
//
// Without groups, blocks prefetch the beginning of their rows of w before x in bf16 has been
// computed.
#pragma once

#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gemm/row_tiles.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/stored/blocks.h"

namespace lamina::cuda {

inline constexpr int kUnit = 8;

// Rows of plain numbers. With kVectors every row begins at a multiple of 16 bytes and has whole
// units. The last unit of a row is filled with zeros.
template <typename T, bool kVectors>
struct PlainRows {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kUnderWay = kVectors ? 4 : 2;  // elements take more registers
  struct Unit {
    gpu::Vector<T, kVector> parts[kUnit / kVector];
  };

  gpu::Global<const T> w;
  std::int64_t k;

  LAMINA_GPU_FUNCTION PlainRows(gpu::Address address, std::int64_t width) : w(address), k(width) {}
  static LAMINA_GPU_FUNCTION std::int64_t row_bytes(std::int64_t k) { return k * sizeof(T); }
  LAMINA_GPU_FUNCTION Unit load(std::int64_t row, std::int64_t unit) const {
    Unit out;
    const std::int64_t first = unit * kUnit;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kUnit / kVector; ++i) {
      if constexpr (kVectors) {
        out.parts[i] = gpu::load_vector<kVector>(w, row * k + first + i * kVector);
      } else {
        LAMINA_GPU_UNROLL
        for (int j = 0; j < kVector; ++j) {
          const std::int64_t at = first + i * kVector + j;
          out.parts[i].values[j] = at < k ? w[row * k + at] : T{};
        }
      }
    }
    return out;
  }
  static LAMINA_GPU_FUNCTION void widen(const Unit& unit, float (&out)[kUnit]) {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kUnit; ++i)
      out[i] = gpu::widen(unit.parts[i / kVector].values[i % kVector]);
  }
};

// Rows in blocks, whose values are rounded to X, the type of x.
template <typename Format, typename X>
struct BlockRows {
  static constexpr int kUnderWay = 2;
  struct Unit {
    float values[kUnit];
  };

  stored::StoredBytes w;
  std::int64_t bytes_of_row;

  LAMINA_GPU_FUNCTION BlockRows(gpu::Address address, std::int64_t k)
      : w(address), bytes_of_row(row_bytes(k)) {}
  static LAMINA_GPU_FUNCTION std::int64_t row_bytes(std::int64_t k) {
    return k / Format::kValues * Format::kBytes;
  }
  LAMINA_GPU_FUNCTION Unit load(std::int64_t row, std::int64_t unit) const {
    constexpr int kUnits = Format::kValues / kUnit;
    Unit out;
    Format::widen8(w + (row * bytes_of_row + unit / kUnits * Format::kBytes),
                   static_cast<int>(unit % kUnits) * kUnit, out.values);
    return out;
  }
  static LAMINA_GPU_FUNCTION void widen(const Unit& unit, float (&out)[kUnit]) {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kUnit; ++i) out[i] = gpu::widen(gpu::narrow<X>(unit.values[i]));
  }
};

template <typename X>
LAMINA_GPU_FUNCTION void load_unit(gpu::Shared<X> x, int at, float (&out)[kUnit]) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(X));
  LAMINA_GPU_UNROLL
  for (int i = 0; i < kUnit; i += kVector) {
    const gpu::Vector<X, kVector> v = gpu::load_vector<kVector>(x, at + i);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kVector; ++j) out[i + j] = gpu::widen(v.values[j]);
  }
}

// Copies values [begin, begin + length) of kRows rows; missing rows and values are zeros.
template <typename X, int kRows>
LAMINA_GPU_FUNCTION void load_chunk(const FewRowsParams& p, const RowTile& tile, std::int64_t begin,
                                    int length, gpu::Shared<X> xs) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(X));
  const gpu::Global<const X> x = gpu::Global<const X>(p.x) + (tile.first * p.k + begin);
  LAMINA_GPU_UNROLL
  for (int row = 0; row < kRows; ++row) {
    const gpu::Global<const X> from = x + row * p.k;
    const gpu::Shared<X> to = xs + row * p.chunk;
    const bool exists = row < tile.count;
    if (p.x_vectors != 0) {
      for (int i = gpu::thread_index() * kVector; i < length; i += kFewRowsThreads * kVector)
        gpu::store_vector(to, i,
                          exists ? gpu::load_vector<kVector>(from, i) : gpu::Vector<X, kVector>{});
    } else {
      const int padded = (length + kUnit - 1) / kUnit * kUnit;
      for (int i = gpu::thread_index(); i < padded; i += kFewRowsThreads)
        to[i] = exists && i < length ? from[i] : X{};
    }
  }
}

// Adds the products of one unit of each row of w with the rows of x.
template <typename Rows, typename X, int kRows, int kOutputs>
LAMINA_GPU_FUNCTION void multiply_unit(const typename Rows::Unit (&w)[kOutputs], gpu::Shared<X> xs,
                                       int chunk, int at, float (&sums)[kRows * kOutputs]) {
  float wide[kOutputs][kUnit];
  LAMINA_GPU_UNROLL
  for (int o = 0; o < kOutputs; ++o) Rows::widen(w[o], wide[o]);
  LAMINA_GPU_UNROLL
  for (int row = 0; row < kRows; ++row) {
    float x[kUnit];
    load_unit(xs + row * chunk, at, x);
    LAMINA_GPU_UNROLL
    for (int o = 0; o < kOutputs; ++o) {
      float& sum = sums[row * kOutputs + o];
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kUnit; ++i) sum = gpu::fma(wide[o][i], x[i], sum);
    }
  }
}

// Adds sums[i + kHalf] of half of the lanes and sums[i] of the other half, and so on down to one
// sum per lane. Recursive, because nvcc does not unroll the loop, and sums would be in memory.
template <int kHalf, int kCount>
LAMINA_GPU_FUNCTION void exchange_halves(float (&sums)[kCount]) {
  if constexpr (kHalf > 0) {
    constexpr int kMask = gpu::kWarpSize * kHalf / kCount;
    const bool upper = (gpu::lane() & kMask) != 0;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kHalf; ++i) {
      const float low = sums[i], high = sums[i + kHalf];
      sums[i] = (upper ? high : low) + gpu::shuffle_xor(upper ? low : high, kMask);
    }
    exchange_halves<kHalf / 2>(sums);
  }
}

// Returns the sum over all lanes of sums[lane / (32 / kCount)]. The lanes exchange halves of the
// sums that they still have, so that there are as many shuffles as sums. The tree of additions is
// the same for each of the sums and for any number of them.
template <int kCount>
LAMINA_GPU_FUNCTION float sum_over_warp(float (&sums)[kCount]) {
  static_assert(kCount <= gpu::kWarpSize && (kCount & (kCount - 1)) == 0);
  exchange_halves<kCount / 2>(sums);
  for (int mask = gpu::kWarpSize / 2 / kCount; mask > 0; mask /= 2)
    sums[0] += gpu::shuffle_xor(sums[0], mask);
  return sums[0];
}

template <typename Rows, typename X, int kRows, int kOutputs>
LAMINA_GPU_FUNCTION void multiply(const FewRowsParams& p, const FewRowsMatrix& matrix,
                                  const RowTile& tile, const Rows& w, std::int64_t first_output) {
  constexpr int kUnderWay = Rows::kUnderWay / kOutputs > 0 ? Rows::kUnderWay / kOutputs : 1;
  constexpr int kUnits = kFewRowsStep / kUnit;  // of a step: one for each lane
  const gpu::Shared<X> xs = gpu::dynamic_shared<X>();
  std::int64_t rows[kOutputs];
  LAMINA_GPU_UNROLL
  for (int o = 0; o < kOutputs; ++o)
    rows[o] = tile.group * matrix.n + gpu::min(first_output + o, matrix.n - 1);
  float sums[kRows * kOutputs] = {};
  for (std::int64_t begin = 0; begin < p.k; begin += p.chunk) {
    const int length = static_cast<int>(gpu::min<std::int64_t>(p.chunk, p.k - begin));
    gpu::sync();  // the chunk before is in use until here
    load_chunk<X, kRows>(p, tile, begin, length, xs);
    gpu::sync();
    const int units = (length + kUnit - 1) / kUnit;
    const std::int64_t first = begin / kUnit;
    int unit = gpu::lane();
    for (; unit + (kUnderWay - 1) * kUnits < units; unit += kUnderWay * kUnits) {
      typename Rows::Unit loaded[kUnderWay][kOutputs];
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kUnderWay; ++i) {
        LAMINA_GPU_UNROLL
        for (int o = 0; o < kOutputs; ++o)
          loaded[i][o] = w.load(rows[o], first + unit + i * kUnits);
      }
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kUnderWay; ++i)
        multiply_unit<Rows, X, kRows>(loaded[i], xs, p.chunk, (unit + i * kUnits) * kUnit, sums);
    }
    for (; unit < units; unit += kUnits) {
      typename Rows::Unit loaded[kOutputs];
      LAMINA_GPU_UNROLL
      for (int o = 0; o < kOutputs; ++o) loaded[o] = w.load(rows[o], first + unit);
      multiply_unit<Rows, X, kRows>(loaded, xs, p.chunk, unit * kUnit, sums);
    }
  }
  float sum = sum_over_warp(sums);
  const int mine = gpu::lane() / (gpu::kWarpSize / (kRows * kOutputs));
  const int row = mine / kOutputs;
  const std::int64_t output = first_output + mine % kOutputs;
  if (gpu::lane() % (gpu::kWarpSize / (kRows * kOutputs)) != 0) return;
  if (row >= tile.count || output >= matrix.n) return;
  if (matrix.bias.value != 0)
    sum += static_cast<float>(
        load_number(matrix.bias, matrix.bias_type, tile.group * matrix.n + output));
  store_number(matrix.y, p.y_type, (tile.first + row) * matrix.n + output, sum);
}

// Rows of no group.
LAMINA_GPU_FUNCTION void set_to_zero(const FewRowsParams& p, const FewRowsMatrix& matrix,
                                     const RowTile& tile, std::int64_t first_output, int outputs) {
  const int past = static_cast<int>(gpu::min<std::int64_t>(outputs, matrix.n - first_output));
  for (int row = 0; row < tile.count; ++row)
    for (int o = gpu::thread_index(); o < past; o += kFewRowsThreads)
      store_number(matrix.y, p.y_type, (tile.first + row) * matrix.n + first_output + o, 0);
}

// The outputs of a block: rows of one matrix.
template <int kOutputs>
struct OutputPlace {
  static constexpr int kOfBlock = kFewRowsThreads / gpu::kWarpSize * kOutputs;
  const FewRowsMatrix* matrix;
  std::int64_t first;  // of the block

  LAMINA_GPU_FUNCTION explicit OutputPlace(const FewRowsParams& p) {
    int i = 0;
    while (i + 1 < p.num_matrices && gpu::block_index() >= p.matrices[i + 1].first_block) ++i;
    matrix = &p.matrices[i];
    first = std::int64_t{gpu::block_index() - matrix->first_block} * kOfBlock;
  }
  LAMINA_GPU_FUNCTION std::int64_t of_warp() const { return first + gpu::warp_index() * kOutputs; }
};

// Prefetches the first lines of the rows of w of this warp, one line per lane.
template <typename Rows, int kOutputs>
LAMINA_GPU_FUNCTION void prefetch_rows(const FewRowsParams& p) {
  constexpr int kLines = gpu::kWarpSize / kOutputs, kLineBytes = 128;
  const OutputPlace<kOutputs> place(p);
  const std::int64_t output = place.of_warp() + gpu::lane() / kLines;
  const std::int64_t byte = gpu::lane() % kLines * kLineBytes, bytes = Rows::row_bytes(p.k);
  if (output < place.matrix->n && byte < bytes)
    gpu::prefetch({place.matrix->w.value + static_cast<std::uint64_t>(output * bytes + byte)});
}

// Block x computes outputs of one matrix, block y a tile of at most kMostRows rows.
template <typename Rows, typename X, int kMostRows, int kOutputs>
LAMINA_GPU_FUNCTION void few_rows(const FewRowsParams& p) {
  if constexpr (sizeof(X) == 2)  // no registers are left for f32
    if (p.rows.num_groups == 0) prefetch_rows<Rows, kOutputs>(p);
  gpu::wait_for_earlier();
  const int index = static_cast<int>(p.first_tile) + gpu::block_index_y();
  const RowTile tile = find_row_tile(p.rows, kMostRows, index);
  if (tile.count == 0) return;
  const OutputPlace<kOutputs> place(p);
  const FewRowsMatrix& matrix = *place.matrix;
  if (tile.group < 0) return set_to_zero(p, matrix, tile, place.first, place.kOfBlock);
  const std::int64_t output = place.of_warp();
  const Rows w(matrix.w, p.k);
  if constexpr (kMostRows == 1) {
    multiply<Rows, X, 1, kOutputs>(p, matrix, tile, w, output);
  } else {
    static_assert(kMostRows == kFewRows && kFewRows == 8);
    if (tile.count == 1)
      multiply<Rows, X, 1, kOutputs>(p, matrix, tile, w, output);
    else if (tile.count == 2)
      multiply<Rows, X, 2, kOutputs>(p, matrix, tile, w, output);
    else if (tile.count <= 4)
      multiply<Rows, X, 4, kOutputs>(p, matrix, tile, w, output);
    else
      multiply<Rows, X, 8, kOutputs>(p, matrix, tile, w, output);
  }
}

// A kernel for any number of rows, and one for a single row, which needs fewer registers:
// kOneRowBlocks of its blocks run on a multiprocessor.
#define LAMINA_FEW_ROWS(name, Rows, X, kOutputs, kOneRowBlocks)                            \
  LAMINA_GPU_KERNEL_EARLY(few_rows_##name, FewRowsParams, kFewRowsThreads, 2) {            \
    few_rows<Rows, X, kFewRows, kOutputs>(p);                                              \
  }                                                                                        \
  LAMINA_GPU_KERNEL_EARLY(one_row_##name, FewRowsParams, kFewRowsThreads, kOneRowBlocks) { \
    few_rows<Rows, X, 1, kOutputs>(p);                                                     \
  }

}  // namespace lamina::cuda
