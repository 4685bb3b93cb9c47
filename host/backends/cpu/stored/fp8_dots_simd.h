// Products of blocks of FP8 values with rows of floats or of bf16. Internal to each file that
// includes it.
//
// Floats: values times 2^-120 need no conversion (kFp8Bits), so the row of activations has the
// factor 2^120 (FloatStep).
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "backends/cpu/stored/integer_steps_simd.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

// Blocks as rows of floats read them, in steps of 64 values.
template <int kNumValues>
struct Fp8 : Fp8Block<kNumValues> {
  using Fp8Block<kNumValues>::kValues, Fp8Block<kNumValues>::kAt, Fp8Block<kNumValues>::kBytes;
  using X = FloatStep;

  // Value `first` of a step; the values after it follow up to a multiple of 32.
  LAMINA_SIMD static const std::byte* bytes(const std::byte* p, int step, int first) {
    return kValues == 32 ? p + first / 32 * kBytes + kAt + first % 32
                         : p + kAt + kStepValues * step + first;
  }
  // The scale of that value. With a call of scale_of() GCC 12 spills sums of several rows, and
  // their products take a quarter longer.
  LAMINA_SIMD static float scale(const std::byte* p, int first) {
    float scale;
    __builtin_memcpy(&scale, kValues == 32 ? p + first / 32 * kBytes : p, sizeof scale);
    return scale;
  }
};

// The values of a step that are in one register: part `kPart` of Float's lanes.
template <int kPart>
struct Fp8Part {
  static constexpr int kNumLanes = std::min(kNativeBytes / 4, kLanes);
  static constexpr int kValues = 4 * kNumLanes, kFirst = kPart * kValues;
  using Bytes = Vec<std::uint8_t, kValues>;
  using Shorts = Vec<std::int16_t, kValues / 2>;
  using Words = Vec<std::uint32_t, kNumLanes>;
  using Floats = Vec<float, kNumLanes>;

  template <typename F>
  LAMINA_SIMD static Bytes load(const std::byte* p, int step) {
#if defined(__AVX512F__)
    if constexpr (F::kValues == 32)
      return both(load_bytes32(F::bytes(p, step, 0)), load_bytes32(F::bytes(p, step, 32)));
#endif
    return load_bits<Bytes>(F::bytes(p, step, kFirst));
  }
  template <typename F>
  LAMINA_SIMD static Floats scales(const std::byte* p) {
#if defined(__AVX512F__)
    if constexpr (F::kValues == 32) return in_eight_lanes_each(F::scale(p, 0), F::scale(p, 32));
#endif
    return splat<Floats>(F::scale(p, kFirst));
  }
  LAMINA_SIMD static Floats load(const float (&lanes)[kLanes]) {
    return load_bits<Floats>(lanes + kPart * kNumLanes);
  }
  // Returns the lanes of the part in a sum.
  template <typename V>
  LAMINA_SIMD static Floats& of(V& sum) {
    if constexpr (std::is_same_v<V, Floats>)
      return sum;
    else if constexpr (kPart * kNumLanes % Elements<V>::count < Elements<V>::count / 2)
      return of(sum.lo);
    else
      return of(sum.hi);
  }
  LAMINA_SIMD static Bytes larger(Bytes a, Bytes b) {
#if defined(__AVX512F__)
    return as_codes(_mm512_max_epu8(raw(a), raw(b)));
#elif defined(__AVX2__)
    return {reinterpret_cast<typename Bytes::Raw>(
        _mm256_max_epu8(reinterpret_cast<__m256i>(a.raw), reinterpret_cast<__m256i>(b.raw)))};
#else
    return {a.raw > b.raw ? a.raw : b.raw};
#endif
  }
  LAMINA_SIMD static bool any_equal(Bytes a, std::uint8_t b) {
#if defined(__AVX512F__)
    return _mm512_cmpeq_epi8_mask(raw(a), raw(splat<Bytes>(b))) != 0;
#elif defined(__AVX2__)
    const __m256i equal =
        _mm256_cmpeq_epi8(reinterpret_cast<__m256i>(a.raw), _mm256_set1_epi8(static_cast<char>(b)));
    return _mm256_testz_si256(equal, equal) == 0;
#else
    for (int i = 0; i < kValues; ++i)
      if (a.raw[i] == b) return true;
    return false;
#endif
  }
};

// Adds the products of a part of a step of R rows of w with M rows of x.
template <typename Part, typename F, int R, int M>
LAMINA_SIMD void add_fp8_part(const std::byte* const* rows, int step, const FloatStep* x,
                              std::int64_t x_steps, Float (&products)[R][M]) {
  using PartWords = typename Part::Words;
  using Floats = typename Part::Floats;
  // Values 3 and 1 of each lane, then 2 and 0.
#pragma GCC unroll 2
  for (int first = 3; first >= 2; --first) {
    PartWords pairs[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const auto words = bits_as<typename Part::Shorts>(Part::template load<F>(rows[r], step));
      pairs[r] = bits_as<PartWords>(shift_right(first == 3 ? words : shift_left(words, 8), 4));
    }
#pragma GCC unroll 2
    for (int value = first; value >= 0; value -= 2) {
      Floats of_x[M];
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        of_x[i] = Part::load(x[i * x_steps + step].x[value]);
#if defined(__AVX2__)
        // Without this GCC reads it again for every row.
        if constexpr (R > 1) asm("" : "+v"(of_x[i].raw));
#endif
      }
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const auto small = bits_as<Floats>((value == first ? pairs[r] : shift_left(pairs[r], 16)) &
                                           splat<PartWords>(kFp8Bits));
#pragma GCC unroll 4
        for (int i = 0; i < M; ++i) {
          Floats& lanes = Part::of(products[r][i]);
          lanes = fma(small, of_x[i], lanes);
        }
      }
    }
  }
}

// Finds NaN: its bytes are the largest without their signs.
template <typename F, int kSteps, typename... Parts>
LAMINA_SIMD bool has_fp8_nan(const std::byte* const* rows, int num_rows) {
  constexpr std::uint8_t kNan = 0xfe;
  auto largest = splat<Fp8Part<0>::Bytes>(0);
  const auto add = [&](auto bytes) { largest = Fp8Part<0>::larger(largest, bytes + bytes); };
#pragma GCC unroll 4
  for (int r = 0; r < num_rows; ++r)
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) (add(Parts::template load<F>(rows[r], step)), ...);
  return Fp8Part<0>::any_equal(largest, kNan);
}

// Adds the products of kSteps steps of 64 values, which have the same scales: sums of a lane's
// products times the scale.
template <typename F, int kSteps, typename... Parts, int R, int M>
LAMINA_SIMD void add_fp8_parts(const std::byte* const* rows, const FloatStep* x,
                               std::int64_t x_steps, Float (&sum)[R][M]) {
  Float products[R][M];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) products[r][i] = splat(0);
  const auto finish = [&](auto part) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const auto scales = part.template scales<F>(rows[r]);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        auto& lanes = part.of(sum[r][i]);
        lanes = fma(part.of(products[r][i]), scales, lanes);
      }
    }
  };
  if constexpr (M == 1) {  // many sums at a time
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step)
      (add_fp8_part<Parts, F>(rows, step, x, x_steps, products), ...);
    (finish(Parts{}), ...);
  } else {  // as many as there are registers
    const auto add_steps = [&](auto part) {
#pragma GCC unroll 2
      for (int step = 0; step < kSteps; ++step)
        add_fp8_part<decltype(part), F>(rows, step, x, x_steps, products);
      finish(part);
    };
    (add_steps(Parts{}), ...);
  }
  if (has_fp8_nan<F, kSteps, Parts...>(rows, R)) [[unlikely]]
    for (int r = 0; r < R; ++r)
      if (has_fp8_nan<F, kSteps, Parts...>(rows + r, 1))
        for (int i = 0; i < M; ++i) sum[r][i] = splat(__builtin_nanf(""));
}

template <typename F, int kSteps, int R, int M>
LAMINA_SIMD void add_fp8(const std::byte* const* rows, const FloatStep* x, std::int64_t x_steps,
                         Float (&sum)[R][M]) {
  const auto add = [&]<int... kParts>(std::integer_sequence<int, kParts...>) {
    add_fp8_parts<F, kSteps, Fp8Part<kParts>...>(rows, x, x_steps, sum);
  };
  add(std::make_integer_sequence<int, kLanes / Fp8Part<0>::kNumLanes>());
}

#if defined(__AVX512BF16__)
// ---- Products of bf16 ---------------------------------------------------------------------------

// bf16 has all values of FP8, so tables of 128 bytes convert them exactly, NaN included.
template <int kNumValues>
struct Fp8AsBf16 : Fp8<kNumValues> {
  using X = Bf16Step;
};

// Returns bits `shift` to `shift` + 7 of the floats of all bytes without a sign.
constexpr std::array<std::uint8_t, 128> bits_of_fp8(int shift) {
  std::array<std::uint8_t, 128> out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] =
        static_cast<std::uint8_t>(__builtin_bit_cast(std::uint32_t, formats::kE4m3[i]) >> shift);
  return out;
}
alignas(64) constexpr std::array<std::uint8_t, 128> kLowerOfFp8 = bits_of_fp8(16),
                                                    kUpperOfFp8 = bits_of_fp8(24);

// Returns the entries of a table for bytes, whose signs have no effect.
LAMINA_SIMD __m512i look_up(const std::array<std::uint8_t, 128>& table, __m512i bytes) {
  return look_up(_mm512_load_si512(table.data()), _mm512_load_si512(table.data() + 64), bytes);
}

template <typename F, int kSteps, int R, int M>
LAMINA_SIMD void add_fp8(const std::byte* const* rows, const Bf16Step* x, std::int64_t x_steps,
                         Float (&sum)[R][M]) {
  using Part = Fp8Part<0>;
  __m512 products[R][M];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) products[r][i] = _mm512_setzero_ps();
#pragma GCC unroll 2
  for (int step = 0; step < kSteps; ++step)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512i bytes = raw(Part::load<F>(rows[r], step));
      const __m512i lower = look_up(kLowerOfFp8, bytes);
      // 0xf8: a | (b & c)
      const __m512i upper = _mm512_ternarylogic_epi64(look_up(kUpperOfFp8, bytes), bytes,
                                                      _mm512_set1_epi8(-128), 0xf8);
      const __m512i w[2] = {_mm512_unpacklo_epi8(lower, upper), _mm512_unpackhi_epi8(lower, upper)};
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half)
          products[r][i] = _mm512_dpbf16_ps(
              products[r][i], reinterpret_cast<__m512bh>(w[half]),
              reinterpret_cast<__m512bh>(_mm512_load_si512(x[i * x_steps + step].x[half])));
    }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const Float scales = Part::scales<F>(rows[r]);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) sum[r][i] = fma(Float{products[r][i]}, scales, sum[r][i]);
  }
}
#endif

}  // namespace
}  // namespace lamina::cpu
