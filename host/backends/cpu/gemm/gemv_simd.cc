// Multiplies rows of W with a few rows of x, for one instruction set.
//
// The order of a row's sum never depends on m or on other rows: step j of kStep elements is added
// to partial sum j mod kSums, and the tail like one more step. Then the partial sums are added in
// order, then the lanes by a fixed tree.
//
// The order of memory accesses decides the speed: each thread reads its rows once, front to back.
// Measured on Zen 4, in GB/s of one thread that can read 34: one row at a time while x and a row
// fit in L1 (33 to 34; three rows together 15 to 23); else many rows per pass over x (29 against
// 21; two threads that share 33 reach it either way); from three rows of x on, three rows of W with
// x packed into one stream (28 against 22).
#include "backends/cpu/gemm/gemv.h"

#include <algorithm>

#include "backends/cpu/gemm/gemv_lanes.h"
#include "backends/cpu/gemm/rows_finish_simd.h"
#if defined(__AVX2__) && !defined(__AVX512F__)
#include "backends/cpu/gemm/gemv_wide_simd.h"
#endif

namespace lamina::cpu {
namespace {

// Bytes of one and of two rows of x that stay in L1 beside a row of W.
constexpr std::int64_t kNearBytes1 = 15 * 1024, kNearBytes2 = 12 * 1024;

// Sets sums[i * kBlockRows + r] to row r of W (of R) times row i of x (of M).
template <typename X, int M, int R, bool kPrefetch>
LAMINA_SIMD void dot_rows(const typename X::Element* w, std::int64_t ldw,
                          const typename X::Element* x, std::int64_t ldx, std::int64_t k,
                          float* sums) {
  using Element = typename X::Element;
  constexpr int kElementsPerLine = 64 / static_cast<int>(sizeof(Element));
  constexpr int kUnroll = X::kSums * X::kStep;
  // Prefetches from the row itself and the next one, or from the same place in the next R rows.
  // Data prefetched too early is evicted from L1 again if x fills much of it.
  const auto row_bytes = ldw * static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t ahead =
      R > 1 ? R * row_bytes : (M == 1 && row_bytes <= 8192 ? X::kAheadBytes : 2048);
  typename X::Sum sum[R][M][X::kSums];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
      for (int s = 0; s < X::kSums; ++s) sum[r][i][s] = X::zero();
  std::int64_t at = 0;
  for (; at + kUnroll <= k; at += kUnroll) {
    if constexpr (kPrefetch) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int line = 0; line < kUnroll; line += kElementsPerLine)
          __builtin_prefetch(reinterpret_cast<const char*>(w + r * ldw + at + line) + ahead, 0, 2);
    }
#pragma GCC unroll 8
    for (int s = 0; s < X::kSums; ++s)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int i = 0; i < M; ++i)
          sum[r][i][s] = X::dot(sum[r][i][s], w + r * ldw + at + s * X::kStep,
                                x + i * ldx + at + s * X::kStep);
  }
#pragma GCC unroll 8
  for (int s = 0; s < X::kSums; ++s) {
    if (at >= k) break;
    const int count = static_cast<int>(std::min<std::int64_t>(X::kStep, k - at));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int i = 0; i < M; ++i)
        sum[r][i][s] = count == X::kStep
                           ? X::dot(sum[r][i][s], w + r * ldw + at, x + i * ldx + at)
                           : X::dot_tail(sum[r][i][s], w + r * ldw + at, x + i * ldx + at, count);
    at += count;
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
      for (int s = 1; s < X::kSums; ++s) sum[r][i][0] = X::add(sum[r][i][0], sum[r][i][s]);
    if constexpr (M == 4) {
      float four[4];
      X::reduce4(sum[r][0][0], sum[r][1][0], sum[r][2][0], sum[r][3][0], four);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) sums[i * kBlockRows + r] = four[i];
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) sums[i * kBlockRows + r] = X::reduce(sum[r][i][0]);
    }
  }
}

// Multiplies `num_rows` rows of W, R at a time and the last ones one at a time, with M rows of x.
template <typename X, int M, int R>
void stream_rows_of(const RowsArguments& a, const typename X::Element* w, std::int64_t num_rows,
                    float* sums) {
  const auto* x = static_cast<const typename X::Element*>(a.x);
  std::int64_t row = 0;
  for (; row + R <= num_rows; row += R)
    dot_rows<X, M, R, true>(w + row * a.ldw, a.ldw, x, a.ldx, a.k, sums + row);
  for (; row < num_rows; ++row)
    dot_rows<X, M, 1, true>(w + row * a.ldw, a.ldw, x, a.ldx, a.k, sums + row);
}

// Inlined into the loop over groups: as a call it costs 20 % at k = 1024.
template <typename X, int R, bool kPrefetch>
LAMINA_SIMD void dot_group(std::int64_t m, const typename X::Element* w, std::int64_t ldw,
                           const typename X::Element* x, std::int64_t ldx, std::int64_t k,
                           float* sums) {
  switch (m) {
    case 1:
      return dot_rows<X, 1, R, kPrefetch>(w, ldw, x, ldx, k, sums);
    case 2:
      return dot_rows<X, 2, R, kPrefetch>(w, ldw, x, ldx, k, sums);
    case 3:
      return dot_rows<X, 3, R, kPrefetch>(w, ldw, x, ldx, k, sums);
    default:
      return dot_rows<X, 4, R, kPrefetch>(w, ldw, x, ldx, k, sums);
  }
}

// Multiplies R rows of W with all rows of x, four of x at a time; all passes except the first find
// W in L1.
template <typename X, int R>
void dot_all(const RowsArguments& a, const typename X::Element* w, float* sums) {
  const auto* x = static_cast<const typename X::Element*>(a.x);
  dot_group<X, R, true>(std::min<std::int64_t>(a.m, 4), w, a.ldw, x, a.ldx, a.k, sums);
  for (std::int64_t i = 4; i < a.m; i += 4)
    dot_group<X, R, false>(std::min<std::int64_t>(a.m - i, 4), w, a.ldw, x + i * a.ldx, a.ldx, a.k,
                           sums + i * kBlockRows);
}

// Returns how many rows of W stream_block() takes at most.
inline std::int64_t block_rows([[maybe_unused]] const RowsArguments& a) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if (a.m >= kFewestWideX) return wide_block(a);
#endif
  return kBlockRows;
}

// Sets sums[m][kBlockRows] to rows [begin, end) of W times x; end - begin is at most block_rows().
template <typename X>
void stream_block(const RowsArguments& a, std::int64_t begin, std::int64_t end, float* sums) {
  using Element = typename X::Element;
#if defined(__AVX2__) && !defined(__AVX512F__)
  if (a.m >= kFewestWideX && end - begin >= kFewestWideRows)
    return stream_wide<X>(a, begin, end - begin, sums);
#endif
  const auto* w = static_cast<const Element*>(a.w) + begin * a.ldw;
  const std::int64_t num_rows = end - begin;
  const bool near = a.m * a.k * static_cast<std::int64_t>(sizeof(Element)) <=
                    (a.m == 1 ? kNearBytes1 : kNearBytes2);
  if (a.m == 1) {
    near ? stream_rows_of<X, 1, 1>(a, w, num_rows, sums)
         : stream_rows_of<X, 1, X::kFarRows1>(a, w, num_rows, sums);
  } else if (a.m == 2) {
    near ? stream_rows_of<X, 2, 1>(a, w, num_rows, sums)
         : stream_rows_of<X, 2, X::kFarRows2>(a, w, num_rows, sums);
  } else {
    std::int64_t row = 0;
    for (; row + X::kRows4 <= num_rows; row += X::kRows4)
      dot_all<X, X::kRows4>(a, w + row * a.ldw, sums + row);
    for (; row < num_rows; ++row) dot_all<X, 1>(a, w + row * a.ldw, sums + row);
  }
}

template <typename X>
void stream_rows(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  alignas(64) float sums[kMaxStreamedRows * kBlockRows];
  const std::int64_t rows = block_rows(a);
  for (std::int64_t row = begin; row < end; row += rows) {
    const std::int64_t last = std::min(row + rows, end);
    stream_block<X>(a, row, last, sums);
    for (std::int64_t i = 0; i < a.m; ++i) finish_row(a, i, row, last - row, sums + i * kBlockRows);
  }
}

// W stored as [k, n]. Each output is one chain of multiply-adds over k in order. Four rows of W are
// read together while the next four are prefetched; the sums of a chunk of columns stay in cache.
constexpr std::int64_t kMaxChunkColumns = 1024;
constexpr std::int64_t kChunkSums = 16 * kMaxChunkColumns;

inline float multiply_add(float a, float b, float sum) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, sum);
#else
  return a * b + sum;
#endif
}

template <typename Element>
void add_columns(const RowsArguments& a, std::int64_t begin, std::int64_t count, std::int64_t chunk,
                 float* sums) {
  const auto* w = static_cast<const Element*>(a.w) + begin;
  const std::int64_t ldw = a.ldw;
  const auto* x = static_cast<const Element*>(a.x);
  std::fill(sums, sums + a.m * chunk, 0.0f);
  std::int64_t k = 0;
  for (; k + 4 <= a.k; k += 4) {
    const Element* w0 = w + k * ldw;
    const Element* w1 = w0 + ldw;
    const Element* w2 = w1 + ldw;
    const Element* w3 = w2 + ldw;
    const std::int64_t ahead = k + 8 <= a.k ? 4 * ldw : 0;
    for (std::int64_t j = 0; j < count; j += 64 / static_cast<std::int64_t>(sizeof(Element))) {
      __builtin_prefetch(w0 + ahead + j, 0, 2);
      __builtin_prefetch(w1 + ahead + j, 0, 2);
      __builtin_prefetch(w2 + ahead + j, 0, 2);
      __builtin_prefetch(w3 + ahead + j, 0, 2);
    }
    for (std::int64_t i = 0; i < a.m; ++i) {
      const Element* x_row = x + i * a.ldx + k;
      const float x0 = widen(x_row[0]), x1 = widen(x_row[1]);
      const float x2 = widen(x_row[2]), x3 = widen(x_row[3]);
      float* __restrict sum = sums + i * chunk;
      for (std::int64_t j = 0; j < count; ++j) {
        float s = multiply_add(x0, widen(w0[j]), sum[j]);
        s = multiply_add(x1, widen(w1[j]), s);
        s = multiply_add(x2, widen(w2[j]), s);
        sum[j] = multiply_add(x3, widen(w3[j]), s);
      }
    }
  }
  for (; k < a.k; ++k)
    for (std::int64_t i = 0; i < a.m; ++i) {
      const float x0 = widen(x[i * a.ldx + k]);
      float* __restrict sum = sums + i * chunk;
      for (std::int64_t j = 0; j < count; ++j)
        sum[j] = multiply_add(x0, widen(w[k * ldw + j]), sum[j]);
    }
}

template <typename Element>
void stream_columns(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  alignas(64) float sums[kChunkSums];
  const std::int64_t chunk = std::min(kMaxChunkColumns, kChunkSums / a.m);
  for (std::int64_t column = begin; column < end; column += chunk) {
    const std::int64_t count = std::min(chunk, end - column);
    add_columns<Element>(a, column, count, chunk, sums);
    for (std::int64_t i = 0; i < a.m; ++i) finish_row(a, i, column, count, sums + i * chunk);
  }
}

template <typename Bf16>
void rows(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  a.bf16_in ? stream_rows<Bf16>(a, begin, end) : stream_rows<F32>(a, begin, end);
}

void columns(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  a.bf16_in ? stream_columns<std::uint16_t>(a, begin, end) : stream_columns<float>(a, begin, end);
}

constexpr GemvFunctions kFunctions = {
    .rows = {rows<Bf16Widen>, "rows " LAMINA_ISA_NAME},
#if defined(__AVX512BF16__)
    .rows_bf16 = {rows<Bf16Dot>, "rows avx512_bf16"},
#endif
    .columns = {columns, "columns " LAMINA_ISA_NAME},
};

}  // namespace

constinit const GemvFunctions GemvFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
