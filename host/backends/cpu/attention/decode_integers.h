// The operands of the sums of decoding as integers of 16 bits, for queries of bf16 and rows of
// int8: see decode_sums.h. A lane of a sum has 32 bits and gets two products at a time, so sums
// are exact.
//
// A query is rounded to integers of 16 bits times a power of two, which is exact for bf16 numbers
// that are at least 2^-6 of its largest one. The weights of the slots of a step, times the scales
// of the values, are rounded to 32767ths of the largest. Internal to each file that includes it.
#pragma once

#include <bit>

#include "backends/cpu/attention/decode_floats.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

#if defined(__AVX2__)

// 2 L integers of 16 bits in a register.
template <int L>
struct Int16s;

template <>
struct Int16s<8> {
  using Raw = __m256i;
  LAMINA_SIMD static Raw load(const void* p) {
    return _mm256_loadu_si256(static_cast<const Raw*>(p));
  }
  LAMINA_SIMD static void store(void* p, Raw x) { _mm256_storeu_si256(static_cast<Raw*>(p), x); }
  LAMINA_SIMD static Raw widened(const Int8* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  LAMINA_SIMD static Raw rounded(__m256 low, __m256 high) {
    const Raw halves = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    return _mm256_permute4x64_epi64(halves, 0xd8);
  }
  LAMINA_SIMD static Raw nearest(__m256 x) { return _mm256_cvtps_epi32(x); }
  template <class I>
  LAMINA_SIMD static void multiply_add(Raw a, Raw b, I& sum) {
    sum += reinterpret_cast<I>(_mm256_madd_epi16(a, b));
  }
};

#if defined(__AVX512VNNI__)
template <>
struct Int16s<16> {
  using Raw = __m512i;
  LAMINA_SIMD static Raw load(const void* p) { return _mm512_loadu_si512(p); }
  LAMINA_SIMD static void store(void* p, Raw x) { _mm512_storeu_si512(p, x); }
  LAMINA_SIMD static Raw widened(const Int8* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  LAMINA_SIMD static Raw rounded(__m512 low, __m512 high) {
    const __m256i first = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(low));
    const __m256i last = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(high));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), last, 1);
  }
  LAMINA_SIMD static Raw nearest(__m512 x) { return _mm512_cvtps_epi32(x); }
  template <class I>
  LAMINA_SIMD static void multiply_add(Raw a, Raw b, I& sum) {
    // GCC 12 copies sums of the intrinsic between registers, and leaves an array's element that an
    // asm changes in memory.
    I x = sum;
    asm("vpdpwssd %1, %2, %0" : "+v"(x) : "vm"(a), "v"(b));
    sum = x;
  }
};
#endif

template <class V>
struct DecodeIntegers {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int L = V::kLanes;
  using Register = Int16s<L>;
  using Operand = typename Register::Raw;
  using Sum = I;
  static constexpr int kVectors = 1;  // of kElements numbers of a key
  static constexpr int kSlots = 2;    // whose values are one operand
  static constexpr std::int64_t kElements = 2 * L;

  template <bool kWhole>
  LAMINA_SIMD static void load(const Int8* p, std::int64_t left, Operand (&to)[kVectors]) {
    if constexpr (kWhole)
      to[0] = Register::widened(p);
    else
      to[0] = Register::widened(Padded<Int8, kElements>(p, left).numbers);
  }
  LAMINA_SIMD static void multiply_add(Operand a, Operand b, Sum& sum) {
    Register::multiply_add(a, b, sum);
  }
  LAMINA_SIMD static F add(F a, F b) {
    return reinterpret_cast<F>(reinterpret_cast<Sum>(a) + reinterpret_cast<Sum>(b));
  }
  LAMINA_SIMD static F floats(F sums) {
    return __builtin_convertvector(reinterpret_cast<Sum>(sums), F);
  }

  // ---- queries ----

  static constexpr std::int64_t query_words(std::int64_t vectors) { return vectors * L; }

  static float store_query(const std::uint16_t* q, std::int64_t dim, Word* to) {
    const auto values = [&](std::int64_t i) {
      if (dim - i >= L) return V::load_bf16(q + i);
      return V::load_bf16(Padded<std::uint16_t, L>(q + i, max(0, dim - i)).numbers);
    };
    F largest{}, zero{};  // a number minus itself is 0 if it is finite
    for (std::int64_t i = 0; i < dim; i += L) {
      const F x = values(i);
      largest = V::max(largest, V::max(x, -x));
      zero += x - x;
    }
    const float sum = V::sum_lanes(zero)[0], max = V::max_lane(largest)[0];
    if (sum != 0) return sum;  // NaN
    if (max < kTiny) return clear(dim, to);
    // With more than 512 dims the integers are smaller, so that a sum fits in 32 bits.
    const float limit = static_cast<float>(min(32767, (std::int64_t{1} << 24) / dim));
    float factor = std::bit_cast<float>(std::bit_cast<std::uint32_t>(max) & 0x7f800000u) * 0x1p-14f;
    while (max > limit * factor) factor *= 2;
    const F inverse = V::set(1 / factor);
    for (std::int64_t i = 0; i < dim; i += kElements, to += L)
      Register::store(to, Register::rounded(values(i) * inverse, values(i + L) * inverse));
    return factor;
  }
  LAMINA_SIMD static Operand query(const Word* q, int) { return Register::load(q); }

  // ---- weights ----

  LAMINA_SIMD static F store_weights(const F (&p)[kDecodeKeys], std::int64_t count, Word* to,
                                     std::int64_t stride) {
    F largest{}, zero{};
    for (std::int64_t j = 0; j < count; ++j) {
      largest = V::max(largest, p[j]);
      zero += p[j] - p[j];
    }
    const I is_tiny = largest < V::set(kTiny);
    const F inverse = V::select(is_tiny, F{}, V::set(32767) / largest);
    for (std::int64_t j = 0; j < count; j += kSlots, to += stride) {
      const I low = reinterpret_cast<I>(Register::nearest(p[j] * inverse));
      const I high = reinterpret_cast<I>(Register::nearest(p[j + 1] * inverse));
      V::store_int(to, low | high << 16);
    }
    return V::select(is_tiny, F{}, largest / V::set(32767)) + zero;
  }
  LAMINA_SIMD static Sum first(const float*) { return Sum{}; }
  LAMINA_SIMD static void store(float* o, Sum sum, float factor) {
    const F x = __builtin_convertvector(sum, F);
    V::store(o, V::multiply_add(x, V::set(factor), V::load(o)));
  }

  static void order_sums(float* o, std::int64_t vectors) { order_pair_sums<V>(o, vectors); }

 private:
  static constexpr float kTiny = 0x1p-110f;  // a smaller maximum may have an infinite inverse

  static float clear(std::int64_t dim, Word* to) {
    const std::int64_t words = divide_up(dim, kElements) * L;
    std::memset(to, 0, static_cast<std::size_t>(words) * sizeof(Word));
    return 0;
  }
};

#endif

}  // namespace
}  // namespace lamina::cpu
