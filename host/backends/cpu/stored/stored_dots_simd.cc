// Multiplies rows that are stored in blocks with a few prepared rows, for one instruction set.
//
// A sum has 16 lanes, which are added by a fixed tree. So an output depends neither on m nor on
// other rows.
//
// Integers: a step of 64 values (128: QuantisedHalves) adds to lane i, in this order: the
// product of the minimum with the lane's four (eight) values of x, if the format has minima; then
// the exact integer sum of the lane's products, times (scale of w * scale of x). A step of
// QuantisedParts adds its eight minima to eight lanes, then the products of its rows of codes one
// after the other. FP8: see fp8_dots_simd.h.
#include "backends/cpu/stored/stored_dots.h"

#include <algorithm>
#include <iterator>

#include "backends/cpu/gemm/rows_finish_simd.h"
#include "backends/cpu/stored/fp8_dots_simd.h"
#include "backends/cpu/stored/integer_products_simd.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

// Memory is read this far ahead: kernels of plain rows need less, since they
// compute less for each line.
constexpr std::int64_t kAheadBytes = 12 << 10;
constexpr int kGroupRows = 16;  // rows of w whose lanes are added together
#if defined(__AVX512F__)
constexpr int kManyRows = 4;
#else
constexpr int kManyRows = 1;
#endif

// ---- Rows ---------------------------------------------------------------------------------------

// Values that are multiplied together: whole blocks and whole steps.
template <typename F>
constexpr int kIteration = std::max<int>(F::kValues, F::X::kValues);
template <typename F>
constexpr int kIterationBytes = kIteration<F> / F::kValues* F::kBytes;

// Adds kIteration values of R rows of w, from rows[r] on, times M rows of x.
template <typename F, int R, int M>
LAMINA_SIMD void add_iteration(const std::byte* const* rows, const typename F::X* x,
                               std::int64_t x_steps, Float (&sum)[R][M]) {
  if constexpr (kEndSteps<typename F::X> == 1) {
    add_fp8<F, kIteration<F> / kStepValues, R, M>(rows, x, x_steps, sum);
  } else if constexpr (std::is_same_v<typename F::X, QuantisedParts>) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      PartsBlock<F> block;
      block.read(rows[r]);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) sum[r][i] = block.add(x[i * x_steps], sum[r][i]);
    }
  } else if constexpr (std::is_same_v<typename F::X, QuantisedHalves>) {
    HalvesStep<F> steps[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) steps[r].read(rows[r]);
    add_step<F, R, M>(steps, x, x_steps, sum);
  } else {
    Opened<F> opened[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) opened[r] = F::open(rows[r]);
#pragma GCC unroll 4
    for (int step = 0; step < kIteration<F> / kStepValues; ++step) {
      NaturalStep<F> steps[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) steps[r].read(opened[r], rows[r], step);
      add_step<F, R, M>(steps, x + step, x_steps, sum);
    }
  }
}

// `end`: the step after the last one of a row of x.
template <typename X>
LAMINA_SIMD Float finish_lanes(Float sum, const X* end) {
  if constexpr (kEndSteps<X> == 0) {
    return sum;
  } else {
    RowEnd of_row;
    __builtin_memcpy(&of_row, end, sizeof of_row);
    return sum * splat(of_row.scale);
  }
}

// Sets out[r * M + i] to the lanes of rows r of w (of R) times rows i of x (of M).
template <typename F, int R, int M>
void dot_rows(const std::byte* w, std::int64_t k, const typename F::X* x, std::int64_t x_steps,
              bool prefetch, Float* out) {
  const std::int64_t row_bytes = k / F::kValues * F::kBytes;
  // Reads ahead in the order of memory: the R rows follow one another.
  const std::byte* ahead = w + std::max<std::int64_t>(kAheadBytes, R * row_bytes);
  const std::byte* rows[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) rows[r] = w + r * row_bytes;
  const typename F::X* ends = x + divide_up(k, std::int64_t{F::X::kValues});
  Float sum[R][M];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) sum[r][i] = splat(0);
  std::int64_t at = 0;
  for (; at + kIteration<F> <= k; at += kIteration<F>) {
    if (prefetch) {
#pragma GCC unroll 16
      for (int line = 0; line < R * kIterationBytes<F>; line += 64)
        __builtin_prefetch(ahead + line, 0, 2);
      ahead += R * kIterationBytes<F>;
    }
    add_iteration<F, R, M>(rows, x, x_steps, sum);
    x += kIteration<F> / F::X::kValues;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) rows[r] += kIterationBytes<F>;
  }
  constexpr bool kHasSeveralBlocks = F::kValues < kIteration<F>;  // an iteration
  if constexpr (kHasSeveralBlocks) {
    if (at < k) {  // the blocks after the last one are zeros, as is their x
      alignas(64) std::byte last[R][kIterationBytes<F>] = {};
      for (int r = 0; r < R; ++r) {
        __builtin_memcpy(last[r], rows[r],
                         static_cast<std::size_t>((k - at) / F::kValues * F::kBytes));
        rows[r] = last[r];
      }
      add_iteration<F, R, M>(rows, x, x_steps, sum);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) out[r * M + i] = finish_lanes(sum[r][i], ends + i * x_steps);
}

// Sets sums[row] to the sum of the lanes of rows[row * stride], for kGroupRows rows.
LAMINA_SIMD void sum_rows(const Float* rows, int stride, float* sums) {
#if defined(__AVX512F__)
  // The tree of sum_lanes(), for all rows at once.
  const auto halves = [](__m512 a, __m512 b) {
    return _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
  };
  const auto quarters = [](__m512 a, __m512 b) {
    return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
  };
  const auto pairs = [](__m512 a, __m512 b) {
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return _mm512_castpd_ps(_mm512_unpacklo_pd(x, y)) + _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
  };
  const auto neighbours = [](__m512 a, __m512 b) {
    return _mm512_shuffle_ps(a, b, 0x88) + _mm512_shuffle_ps(a, b, 0xdd);
  };
  __m512 s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    s[i] = halves(rows[2 * i * stride].raw, rows[(2 * i + 1) * stride].raw);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) s[i] = quarters(s[2 * i], s[2 * i + 1]);
  s[0] = pairs(s[0], s[1]);
  s[1] = pairs(s[2], s[3]);
  // Row 4 i + j is lane 4 j + i now.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_ps(sums, _mm512_permutexvar_ps(order, neighbours(s[0], s[1])));
#else
  for (int row = 0; row < kGroupRows; ++row) sums[row] = sum_lanes(rows[row * stride]);
#endif
}

// Rows of w that are multiplied together with M rows of x. With one, formats of 4 to 6 bits are
// bound by reads of x, which several rows share; larger ones by memory, which is faster row by row.
template <typename F, int M>
constexpr int rows_together() {
  if (std::is_same_v<typename F::X, FloatStep>) return 2;  // half of the reads of x, which is large
  if (M == 1) return F::kBytes < F::kValues ? kManyRows : 1;
  return M >= 4 ? std::min(2, kManyRows) : kManyRows;
}

// Sets sums[i * kBlockRows + row] for `num_rows` rows of w, at most kGroupRows, and M rows of x.
template <typename F, int M>
void dot_group(const std::byte* w, int num_rows, std::int64_t k, const typename F::X* x,
               std::int64_t x_steps, bool prefetch, float* sums) {
  constexpr int R = rows_together<F, M>();
  const std::int64_t row_bytes = k / F::kValues * F::kBytes;
  Float lanes[kGroupRows * M];
  int row = 0;
  for (; row + R <= num_rows; row += R)
    dot_rows<F, R, M>(w + row * row_bytes, k, x, x_steps, prefetch, lanes + row * M);
  for (; row < num_rows; ++row)
    dot_rows<F, 1, M>(w + row * row_bytes, k, x, x_steps, prefetch, lanes + row * M);
  for (; row < kGroupRows; ++row)
    for (int i = 0; i < M; ++i) lanes[row * M + i] = splat(0);
  for (int i = 0; i < M; ++i) sum_rows(lanes + i, M, sums + i * kBlockRows);
}

// Likewise for all rows of x: all passes except the first find w in L1.
template <typename F>
void dot_all(const RowsArguments& a, const std::byte* w, int num_rows, float* sums) {
  const auto* x = static_cast<const typename F::X*>(a.x);
  const std::int64_t steps = kRowForm<typename F::X>.steps(a.k);
  const auto pass = [&]<int M>(std::int64_t i) {
    dot_group<F, M>(w, num_rows, a.k, x + i * steps, steps, i == 0, sums + i * kBlockRows);
  };
  std::int64_t i = 0;
  for (; i + 4 <= a.m; i += 4) pass.template operator()<4>(i);
  if (i + 2 <= a.m) pass.template operator()<2>(i), i += 2;
  if (i < a.m) pass.template operator()<1>(i);
}

template <typename F>
void run(const RowsArguments& a, std::int64_t begin, std::int64_t end) {
  alignas(64) float sums[kMaxStreamedRows * kBlockRows];
  const std::int64_t row_bytes = a.k / F::kValues * F::kBytes;
  const auto* w = static_cast<const std::byte*>(a.w);
  for (std::int64_t block = begin; block < end; block += kBlockRows) {
    const std::int64_t past = std::min(block + kBlockRows, end);
    for (std::int64_t row = block; row < past; row += kGroupRows)
      dot_all<F>(a, w + row * row_bytes,
                 static_cast<int>(std::min<std::int64_t>(kGroupRows, past - row)),
                 sums + (row - block));
    for (std::int64_t i = 0; i < a.m; ++i)
      finish_row(a, i, block, past - block, sums + i * kBlockRows);
  }
}

template <typename F>
constexpr StoredDotFunctions::Format functions_of(std::string_view name, std::string_view kernel) {
  return {name, run<F>, &kRowForm<typename F::X>, kEndSteps<typename F::X> == 0, kernel};
}

constexpr std::string_view kIntegers = "integer rows " LAMINA_ISA_NAME,
                           kFp8 = "fp8 rows " LAMINA_ISA_NAME;
#define LAMINA_INTEGER_FORMAT(name, ...) functions_of<__VA_ARGS__>(name, kIntegers),
constexpr StoredDotFunctions::Format kFormats[] = {
    LAMINA_INTEGER_FORMATS functions_of<Fp8<32>>("FP8_32", kFp8),
    functions_of<Fp8<128>>("FP8", kFp8)};
#undef LAMINA_INTEGER_FORMAT

#if defined(__AVX512BF16__)
constexpr std::string_view kFp8AsBf16 = "fp8 rows avx512_bf16";
constexpr StoredDotFunctions::Format kBf16Formats[] = {
    functions_of<Fp8AsBf16<32>>("FP8_32", kFp8AsBf16),
    functions_of<Fp8AsBf16<128>>("FP8", kFp8AsBf16)};
constexpr StoredDotFunctions kFunctions = {kFormats, std::size(kFormats), kRowForm<QuantisedStep>,
                                           kBf16Formats, std::size(kBf16Formats)};
#else
constexpr StoredDotFunctions kFunctions = {kFormats, std::size(kFormats), kRowForm<QuantisedStep>};
#endif

}  // namespace

constinit const StoredDotFunctions StoredDotFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
