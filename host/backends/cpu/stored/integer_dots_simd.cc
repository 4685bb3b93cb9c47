// Multiplies rows that are stored in blocks of integers with a few quantised rows, for one
// instruction set.
//
// A sum has 16 lanes. Step j of 64 values adds to lane i, in this order: the product of the
// minimum with the lane's four values of x, if the format has minima; then the exact integer sum of
// the lane's four products, times (scale of w * scale of x). The lanes are added by a fixed tree.
// So an output depends neither on m nor on other rows.
#include "backends/cpu/stored/integer_dots_simd.h"

#include <algorithm>
#include <iterator>

#include "backends/cpu/gemm/rows_finish_simd.h"
#include "backends/cpu/stored/integer_blocks_simd.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

// Memory is read this far ahead: kernels of plain rows need less, since they
// compute less for each line.
constexpr std::int64_t kAheadBytes = 12 << 10;
constexpr int kGroupRows = 16;  // rows of w whose lanes are added together

// ---- Products of 64 values ----------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int kManyRows = 4;
// init + the products of four neighbours in each lane.
LAMINA_SIMD Int add_products(Int init, const Codes& codes, const std::int8_t* x) {
  return {reinterpret_cast<Int::Raw>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(init.raw), codes, _mm512_loadu_si512(x)))};
}
template <int kOffset>
LAMINA_SIMD Int times_offset(Int sums) {
  return {reinterpret_cast<Int::Raw>(
      _mm512_mullo_epi32(reinterpret_cast<__m512i>(sums.raw), _mm512_set1_epi32(-kOffset)))};
}
#else
constexpr int kManyRows = 1;
LAMINA_SIMD Int add_products(Int init, const Codes& codes, const std::int8_t* x) {
#if defined(__AVX2__)
  const auto lanes8 = [](const std::uint8_t* c, const std::int8_t* v) {
    const auto pairs = [&](int at) {
      const __m256i wide =
          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(c + at)));
      return _mm256_madd_epi16(
          wide, _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(v + at))));
    };
    const __m256i fours = _mm256_hadd_epi32(pairs(0), pairs(16));
    return _mm256_permute4x64_epi64(fours, 0xd8);
  };
  using Eight = decltype(Int::lo);
  return init + Int{{reinterpret_cast<Eight::Raw>(lanes8(codes.codes, x))},
                    {reinterpret_cast<Eight::Raw>(lanes8(codes.codes + 32, x + 32))}};
#else
  std::int32_t lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    lanes[i] = 0;
    for (int j = 4 * i; j < 4 * i + 4; ++j) lanes[i] += codes.codes[j] * x[j];
  }
  return init + load_raw<Int>(lanes);
#endif
}
template <int kOffset>
LAMINA_SIMD Int times_offset(Int sums) {
  return sums * splat<Int>(-kOffset);
}
#endif

// ---- Rows ---------------------------------------------------------------------------------------

// Adds one step of R rows of w times M rows of x.
template <typename F, int R, int M>
LAMINA_SIMD void add_step(const Opened<F>* opened, const std::byte* const* w, int step,
                          const QuantisedStep* x, std::int64_t x_steps, Float (&sum)[R][M]) {
  Codes codes[R];
  Float scales[R], minima[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) read_step<F>(opened[r], w[r], step, codes[r], scales[r], minima[r]);
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
    const QuantisedStep& q = x[i * x_steps];
    const Float x_scales = load(q.scales);
    Int init = splat<Int>(0);
    [[maybe_unused]] Float x_sums;
    if constexpr (F::kOffset != 0) init = times_offset<F::kOffset>(load_raw<Int>(q.sums));
    if constexpr (F::kHasMinimum) x_sums = convert<Float>(load_raw<Int>(q.sums)) * x_scales;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Float products = convert<Float>(add_products(init, codes[r], q.codes));
      if constexpr (F::kHasMinimum) sum[r][i] = fma(minima[r], x_sums, sum[r][i]);
      sum[r][i] = fma(products, scales[r] * x_scales, sum[r][i]);
    }
  }
}

// Sets out[r * M + i] to the lanes of rows r of w (of R) times rows i of x (of M).
template <typename F, int R, int M>
void dot_rows(const std::byte* w, std::int64_t k, const QuantisedStep* x, std::int64_t x_steps,
              bool prefetch, Float* out) {
  constexpr std::int64_t kIteration = kStepsOf<F> * kStepValues;
  const std::int64_t row_bytes = k / F::kValues * F::kBytes;
  // Reads ahead in the order of memory: the R rows follow one another.
  const std::byte* ahead = w + std::max<std::int64_t>(kAheadBytes, R * row_bytes);
  const std::byte* rows[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) rows[r] = w + r * row_bytes;
  Float sum[R][M];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) sum[r][i] = splat(0);
  std::int64_t at = 0;
  for (; at + kIteration <= k; at += kIteration) {
    if (prefetch) {
#pragma GCC unroll 16
      for (int line = 0; line < R * kBytesOf<F>; line += 64) __builtin_prefetch(ahead + line, 0, 2);
      ahead += R * kBytesOf<F>;
    }
    Opened<F> opened[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) opened[r] = open<F>(rows[r]);
#pragma GCC unroll 4
    for (int step = 0; step < kStepsOf<F>; ++step)
      add_step<F, R, M>(opened, rows, step, x + at / kStepValues + step, x_steps, sum);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) rows[r] += kBytesOf<F>;
  }
  if constexpr (kStepValues > F::kValues) {
    if (at < k) {  // one block; the other is zeros, as is its x
      alignas(64) std::byte last[R][kBytesOf<F>] = {};
      Opened<F> opened[R];
      for (int r = 0; r < R; ++r) {
        __builtin_memcpy(last[r], rows[r], F::kBytes);
        rows[r] = last[r];
        opened[r] = open<F>(rows[r]);
      }
      add_step<F, R, M>(opened, rows, 0, x + at / kStepValues, x_steps, sum);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) out[r * M + i] = sum[r][i];
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

// Rows of w that are multiplied together with one row of x. Formats of 4 to 6 bits are bound by
// reads of x, which several rows share; larger ones by memory, which is faster row by row.
template <typename F>
constexpr int kRowsAlone = kBytesOf<F> / kStepsOf<F> < kStepValues ? kManyRows : 1;

// Sets sums[i * kBlockRows + row] for `num_rows` rows of w, at most kGroupRows, and M rows of x.
template <typename F, int M>
void dot_group(const std::byte* w, int num_rows, std::int64_t k, const QuantisedStep* x,
               std::int64_t x_steps, bool prefetch, float* sums) {
  constexpr int R = M >= 4 ? std::min(2, kManyRows) : M == 1 ? kRowsAlone<F> : kManyRows;
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
  const auto* x = static_cast<const QuantisedStep*>(a.x);
  const std::int64_t steps = divide_up(a.k, std::int64_t{kStepValues});
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

// ---- Rows of x ----------------------------------------------------------------------------------

constexpr float kLeast = 0x1p-100f;  // smaller blocks are zeros

// Returns the bits of the largest magnitude of kActivationBlock values. They have the order of
// magnitudes, with infinities and NaN above them.
LAMINA_SIMD int largest_magnitude(const std::uint16_t* x) {
#if defined(__AVX512F__)
  static_assert(kActivationBlock == 32);
  const __m512i sizes = _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi16(0x7fff));
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(sizes), _mm512_extracti64x4_epi64(sizes, 1));
  const __m128i quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  // The machine has an instruction for the smallest of eight words only.
  const __m128i top = _mm_set1_epi16(0x7fff);
  return 0x7fff - _mm_extract_epi16(_mm_minpos_epu16(_mm_sub_epi16(top, quarter)), 0);
#else
  const Words first = convert<Words>(load_raw<Half>(x));
  const Words second = convert<Words>(load_raw<Half>(x + kLanes));
  const Words size = splat<Words>(0x7fff);
  return max_lanes(max(bits_as<Int>(first & size), bits_as<Int>(second & size)));
#endif
}

LAMINA_SIMD void quantise_block(const std::uint16_t* x, std::int8_t* codes, float* scale) {
  const int largest = largest_magnitude(x);
  const float magnitude = widen(static_cast<std::uint16_t>(largest));
  const bool is_finite = largest < 0x7f80;
  const float inverse = is_finite && magnitude >= kLeast ? 127.0f / magnitude : 0;
  *scale = !is_finite ? __builtin_nanf("") : magnitude >= kLeast ? magnitude / 127.0f : 0;
  if (!is_finite) {
    std::fill_n(codes, kActivationBlock, std::int8_t{0});
    return;
  }
  for (int half = 0; half < kActivationBlock; half += kLanes) {
    // Adding 1.5 * 2^23 rounds to an integer, which the lower bits then hold.
    constexpr float kRound = 0x1.8p23f;
    const Words bits = convert<Words>(load_raw<Half>(x + half));
    const Float value = bits_as<Float>(shift_left(bits, 16)) * splat(inverse) + splat(kRound);
    const Int code = bits_as<Int>(value) - splat<Int>(__builtin_bit_cast(std::int32_t, kRound));
#if defined(__AVX512F__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + half),
                     _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(code.raw)));
#else
    std::int32_t lanes[kLanes];
    store_raw(lanes, code);
    for (int i = 0; i < kLanes; ++i) codes[half + i] = static_cast<std::int8_t>(lanes[i]);
#endif
  }
}

// Sets the sums of the lanes of a step.
LAMINA_SIMD void sum_codes(QuantisedStep* step) {
#if defined(__AVX512F__)
  _mm512_store_si512(step->sums, _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1),
                                                     _mm512_load_si512(step->codes)));
#else
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int8_t* c = step->codes + 4 * lane;
    step->sums[lane] = c[0] + c[1] + c[2] + c[3];
  }
#endif
}

void quantise(const std::uint16_t* x, std::int64_t width, QuantisedStep* out) {
  constexpr int kBlocks = kStepValues / kActivationBlock, kBlockLanes = kLanes / kBlocks;
  for (std::int64_t at = 0; at < width; at += kStepValues, ++out) {
    for (int block = 0; block < kBlocks; ++block) {
      const std::int64_t first = at + block * kActivationBlock;
      const std::int64_t count = std::clamp<std::int64_t>(width - first, 0, kActivationBlock);
      std::uint16_t padded[kActivationBlock] = {};
      if (count < kActivationBlock) std::copy_n(x + std::min(first, width), count, padded);
      float scale;
      quantise_block(count < kActivationBlock ? padded : x + first,
                     out->codes + block * kActivationBlock, &scale);
      std::fill_n(out->scales + block * kBlockLanes, kBlockLanes, scale);
    }
    sum_codes(out);
  }
}

#define LAMINA_INTEGER_FORMAT(name, ...) {name, run<__VA_ARGS__>},
constexpr IntegerDotFunctions::Format kFormats[] = {LAMINA_INTEGER_FORMATS};
#undef LAMINA_INTEGER_FORMAT

constexpr IntegerDotFunctions kFunctions = {kFormats, std::size(kFormats),
                                            "integer rows " LAMINA_ISA_NAME, quantise};

}  // namespace

constinit const IntegerDotFunctions IntegerDotFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
