// Rows for groups of threads: a group is a power of two of a block's threads, from one thread to
// the whole block, so that narrow rows fill warps and a wide row has a block.
#pragma once

#include "backends/cuda/gpu/sums.h"

namespace lamina::cuda::gpu {

// The place of this thread in the groups of its block.
struct RowGroup {
  int threads;  // of a group
  int lane;     // of this thread in its group
  int index;    // of the group in its block
  int count;    // groups of the block
};

LAMINA_GPU_FUNCTION RowGroup row_group(int threads) {
  return {threads, thread_index() & (threads - 1), thread_index() / threads,
          num_threads() / threads};
}

// Shared elements that group_combine needs for M values.
template <int M>
inline constexpr int kGroupScratch = kWarpSize* M;

// Replaces each x[m] by its combination over the group. The order is fixed: pairs of lanes at
// halving distances, then warps one after the other; all threads of a group get the same bits. All
// threads of the block take part.
template <int M, typename T, typename Op>
LAMINA_GPU_FUNCTION void group_combine(const RowGroup& g, T (&x)[M], Op op, Shared<T> scratch) {
  for (int mask = min(g.threads, kWarpSize) / 2; mask > 0; mask /= 2) {
    LAMINA_GPU_UNROLL
    for (int m = 0; m < M; ++m) x[m] = op(x[m], shuffle_xor(x[m], mask));
  }
  if (g.threads <= kWarpSize) return;
  sync();  // the values of the last call have been read
  if (lane() == 0) {
    LAMINA_GPU_UNROLL
    for (int m = 0; m < M; ++m) scratch[m * kWarpSize + warp_index()] = x[m];
  }
  sync();
  const int warps = g.threads / kWarpSize, first = g.index * warps;
  LAMINA_GPU_UNROLL
  for (int m = 0; m < M; ++m) {
    x[m] = scratch[m * kWarpSize + first];
    for (int w = 1; w < warps; ++w) {
      const T other = scratch[m * kWarpSize + first + w];
      x[m] = op(x[m], other);
    }
  }
}

template <typename T>
LAMINA_GPU_FUNCTION T group_sum(const RowGroup& g, T x, Shared<T> scratch) {
  T values[1] = {x};
  group_combine(g, values, SumOf{}, scratch);
  return values[0];
}

// Loads elements [i, i + N), or stores them rounded. For N above 1 they are aligned to as many
// bytes as they have, but at most to 16.
template <int N, typename T>
LAMINA_GPU_FUNCTION void load_numbers(Global<T> x, std::int64_t i, Wide<T> (&to)[N]) {
  constexpr int kMost = static_cast<int>(16 / sizeof(T)), kPiece = N < kMost ? N : kMost;
  if constexpr (N == 1) {
    to[0] = load(x, i);
  } else {
    LAMINA_GPU_UNROLL
    for (int first = 0; first < N; first += kPiece) {
      const auto v = load_vector<kPiece>(x, i + first);
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kPiece; ++j) to[first + j] = widen(v.values[j]);
    }
  }
}
template <int N, typename T>
LAMINA_GPU_FUNCTION void store_numbers(Global<T> y, std::int64_t i, const Wide<T> (&from)[N]) {
  constexpr int kMost = static_cast<int>(16 / sizeof(T)), kPiece = N < kMost ? N : kMost;
  if constexpr (N == 1) {
    store(y, i, from[0]);
  } else {
    LAMINA_GPU_UNROLL
    for (int first = 0; first < N; first += kPiece) {
      Vector<T, kPiece> v;
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kPiece; ++j) v.values[j] = narrow<T>(from[first + j]);
      store_vector<kPiece>(y, i + first, v);
    }
  }
}

}  // namespace lamina::cuda::gpu
