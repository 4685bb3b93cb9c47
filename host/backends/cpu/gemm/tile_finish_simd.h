// Finishes the sums of our tile products. Internal to each file that includes it.
#pragma once

#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

#if defined(__AVX512F__)
constexpr bool kHasStreamingStores = true;
#else
constexpr bool kHasStreamingStores = false;  // streaming_store() is a plain store
#endif

// Stores past the caches. Other threads see it after the next fence_streaming_stores().
LAMINA_SIMD void streaming_store(float* p, Float x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, x.raw);
#else
  store(p, x);
#endif
}
LAMINA_SIMD void fence_streaming_stores() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

// Prefetches the lines of C that will be written, during the products before.
LAMINA_SIMD void fetch_outputs(const TileArguments& t, std::int64_t row, std::int64_t rows,
                               std::int64_t column, std::int64_t columns) {
  const std::int64_t size = t.bf16_out ? 2 : 4;
  const char* c = static_cast<const char*>(t.c) + (row * t.ldc + column) * size;
  for (std::int64_t r = 0; r < rows; ++r, c += t.ldc * size)
    for (std::int64_t at = 0; at < columns * size; at += 64) prefetch_for_writing(c + at);
}

template <typename Out, typename Bias>
void finish_block(const TileArguments& t, const float* sums, std::int64_t ld, std::int64_t row,
                  std::int64_t rows, std::int64_t column, std::int64_t columns) {
  const Bias* bias = t.bias ? static_cast<const Bias*>(t.bias) + column : nullptr;
  Out* c = static_cast<Out*>(t.c) + row * t.ldc + column;
  const bool streams = sizeof(Out) == 4 && t.streams && columns % kLanes == 0;
  for (std::int64_t r = 0; r < rows; ++r, sums += ld, c += t.ldc) {
    const auto finished = [&](std::int64_t j, int count) {
      Float sum = load_some(sums + j, count);
      if (bias) sum = sum + load_some(bias + j, count);
      if (t.accumulate) sum = sum + load_some(c + j, count);
      return sum;
    };
    const auto put = [&](std::int64_t j, Float sum) {
      if constexpr (sizeof(Out) == 4)
        if (streams) return streaming_store(c + j, sum);
      store(c + j, sum);
    };
    if (columns < kLanes) {
      const int count = static_cast<int>(columns);
      store_some(c, finished(0, count), count);
      continue;
    }
    // The last vector may overlap the one before it, so it is computed before C changes.
    const std::int64_t last = columns - kLanes;
    const Float end = finished(last, kLanes);
    for (std::int64_t j = 0; j < last; j += kLanes) put(j, finished(j, kLanes));
    put(last, end);
  }
}

// Adds the bias and the values of C to sums[rows][ld], and rounds them into C from [row, column]
// on. After the last one, end_finishes(t) makes C visible to other threads.
void finish(const TileArguments& t, const float* sums, std::int64_t ld, std::int64_t row,
            std::int64_t rows, std::int64_t column, std::int64_t columns) {
  const auto finish_as =
      t.bf16_out ? (t.bf16_bias ? finish_block<bfloat16, bfloat16> : finish_block<bfloat16, float>)
                 : (t.bf16_bias ? finish_block<float, bfloat16> : finish_block<float, float>);
  finish_as(t, sums, ld, row, rows, column, columns);
}

inline void end_finishes(const TileArguments& t) {
  if (t.streams) fence_streaming_stores();
}

}  // namespace
}  // namespace lamina::cpu
