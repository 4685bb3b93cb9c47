// Reads numbers in blocks and stores values, for the formats of widen_simd.cc. Internal to each
// file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/simd/memory.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

LAMINA_SIMD int byte_at(const std::byte* p) { return std::to_integer<int>(*p); }

LAMINA_SIMD float f16_at(const std::byte* p) {
  float16 value;
  __builtin_memcpy(&value, p, sizeof value);
#if defined(__F16C__)
  return _cvtsh_ss(value.bits);
#else
  return to_float(value);
#endif
}

LAMINA_SIMD float bf16_at(const std::byte* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return widen(bits);
}

// Number: bfloat16 or float16.
template <typename Number>
LAMINA_SIMD float number_at(const std::byte* p) {
  if constexpr (std::is_same_v<Number, bfloat16>)
    return bf16_at(p);
  else
    return f16_at(p);
}

// Scale i of a block of NVFP4: a number in f32 divides the scales of 16 values each.
LAMINA_SIMD float nvfp4_scale_at(const std::byte* p, int i) {
  float divisor;
  __builtin_memcpy(&divisor, p, sizeof divisor);
  return formats::kE4m3[static_cast<std::size_t>(byte_at(p + 4 + i))] / divisor;
}

// A block of FP8 (e4m3): its scale in f32, then a byte for each value.
template <int kNumValues>
struct Fp8Block {
  static constexpr int kValues = kNumValues, kAt = sizeof(float), kBytes = kAt + kNumValues;

  LAMINA_SIMD static float scale_of(const std::byte* b) {
    float scale;
    __builtin_memcpy(&scale, b, sizeof scale);
    return scale;
  }
};
// A byte whose sign is in front of a float, and whose other bits are where it has the last bits of
// its exponent and the first ones of its mantissa, is its value times 2^-120, also if that is
// subnormal or zero. Not for NaN. These are the bits.
constexpr std::uint32_t kFp8Bits = 0x87f00000;

using Bytes = Vec<std::uint8_t, kLanes>;
using Bytes32 = Vec<std::uint8_t, 2 * kLanes>;

// ---- Formats ------------------------------------------------------------------------------------
// Each has: kValues and kBytes of a block; is_normal(block): all values are 0 or at least 2^-126;
// widen<Out>(block, out). Scales in f16 are at least 2^-24, so their multiples are normal.

struct Normal {
  LAMINA_SIMD static bool is_normal(const std::byte*) { return true; }
};

// ---- Numbers in blocks --------------------------------------------------------------------------

LAMINA_SIMD Bytes load_bytes(const std::byte* p) { return load_bits<Bytes>(p); }

LAMINA_SIMD Int unsigned_lanes(Bytes x) {
#if defined(__AVX512F__)
  return {reinterpret_cast<Int::Raw>(_mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(x.raw)))};
#elif defined(__AVX2__)
  const __m128i bytes = reinterpret_cast<__m128i>(x.raw);
  return {{reinterpret_cast<Vec<std::int32_t, 8>::Raw>(_mm256_cvtepu8_epi32(bytes))},
          {reinterpret_cast<Vec<std::int32_t, 8>::Raw>(
              _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)))}};
#else
  return convert<Int>(x);
#endif
}

LAMINA_SIMD Int signed_lanes(Bytes x) {
#if defined(__AVX512F__)
  return {reinterpret_cast<Int::Raw>(_mm512_cvtepi8_epi32(reinterpret_cast<__m128i>(x.raw)))};
#elif defined(__AVX2__)
  const __m128i bytes = reinterpret_cast<__m128i>(x.raw);
  return {{reinterpret_cast<Vec<std::int32_t, 8>::Raw>(_mm256_cvtepi8_epi32(bytes))},
          {reinterpret_cast<Vec<std::int32_t, 8>::Raw>(
              _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))}};
#else
  return convert<Int>(bits_as<Vec<std::int8_t, kLanes> >(x));
#endif
}

LAMINA_SIMD Bytes32 load_bytes32(const std::byte* p) { return load_bits<Bytes32>(p); }

#if defined(__AVX2__)
LAMINA_SIMD Bytes first_half(Bytes32 x) {
  return {reinterpret_cast<Bytes::Raw>(_mm256_castsi256_si128(reinterpret_cast<__m256i>(x.raw)))};
}
LAMINA_SIMD Bytes second_half(Bytes32 x) {
  return {
      reinterpret_cast<Bytes::Raw>(_mm256_extracti128_si256(reinterpret_cast<__m256i>(x.raw), 1))};
}
LAMINA_SIMD Bytes32 both_halves(Bytes a, Bytes b) {
  return {reinterpret_cast<Bytes32::Raw>(
      _mm256_set_m128i(reinterpret_cast<__m128i>(b.raw), reinterpret_cast<__m128i>(a.raw)))};
}
#else
LAMINA_SIMD Bytes first_half(Bytes32 x) { return x.lo; }
LAMINA_SIMD Bytes second_half(Bytes32 x) { return x.hi; }
LAMINA_SIMD Bytes32 both_halves(Bytes a, Bytes b) { return {a, b}; }
#endif

template <typename V>
LAMINA_SIMD V low_nibbles(V x) {
  return x & splat<V>(15);
}
template <typename V>
LAMINA_SIMD V high_nibbles(V x) {
  return shift_right(x, 4);
}

// Bit i of 16 bits in lane i: 16 or 0.
LAMINA_SIMD Bytes sixteens(const std::byte* bits) {
#if defined(__AVX512F__)
  std::uint16_t mask;
  __builtin_memcpy(&mask, bits, sizeof mask);
  return {reinterpret_cast<Bytes::Raw>(_mm_maskz_set1_epi8(mask, 16))};
#else
  static constexpr std::uint8_t kBits[kLanes] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                 1, 2, 4, 8, 16, 32, 64, 128};
  const auto spread = [&](int i) {
    return std::to_integer<std::uint64_t>(bits[i]) * 0x0101010101010101;
  };
  const std::uint64_t both[2] = {spread(0), spread(1)};
  const Bytes of_lane = load_raw<Bytes>(kBits);
  const Bytes set = load_bits<Bytes>(both) & of_lane;
  return {reinterpret_cast<Bytes::Raw>(set.raw == of_lane.raw) & splat<Bytes>(16).raw};
#endif
}

// The entries of a table of 16 bytes.
LAMINA_SIMD Bytes look_up(const void* table, Bytes nibbles) {
#if defined(__AVX2__)
  return {reinterpret_cast<Bytes::Raw>(
      _mm_shuffle_epi8(_mm_loadu_si128(static_cast<const __m128i*>(table)),
                       reinterpret_cast<__m128i>(nibbles.raw)))};
#else
  std::uint8_t entries[kLanes], index[kLanes];
  __builtin_memcpy(entries, table, sizeof entries);
  store_raw(index, nibbles);
  for (std::uint8_t& i : index) i = entries[i];
  return load_raw<Bytes>(index);
#endif
}

#if defined(__AVX512BF16__)
// The entries of a table of 128 bytes for bytes, whose signs have no effect.
LAMINA_SIMD __m512i look_up(__m512i first, __m512i second, __m512i bytes) {
  // An instruction of AVX-512 VBMI, for which no file is compiled: see has_byte_tables().
  asm("vpermi2b %2, %1, %0" : "+v"(bytes) : "v"(first), "v"(second));
  return bytes;
}
#endif

LAMINA_SIMD Float numbers(int first) { return convert<Float>(lane_numbers() + splat<Int>(first)); }

// ---- Results ------------------------------------------------------------------------------------

struct F32 {
  using Element = float;
  static constexpr bool kHasTables = false;
  LAMINA_SIMD static void store32(Element* out, Float a, Float b) {
    store(out, a);
    store(out + kLanes, b);
  }
};

struct Bf16 {
  using Element = bfloat16;
#if defined(__AVX512F__)
  static constexpr bool kHasTables = true;
  LAMINA_SIMD static __m512i table(Float low, Float high) {
    alignas(64) Element out[2 * kLanes];
    store32(out, low, high);
    return _mm512_load_si512(out);
  }
#else
  static constexpr bool kHasTables = false;
#endif
  LAMINA_SIMD static void store32(Element* out, Float a, Float b) {
    store(out, a);
    store(out + kLanes, b);
  }
};

#if defined(__AVX512BF16__)
// The machine rounds numbers below 2^-126 to 0: only for blocks with is_normal().
struct MachineBf16 {
  using Element = bfloat16;
  static constexpr bool kHasTables = true;
  LAMINA_SIMD static __m512i table(Float low, Float high) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.raw, low.raw));
  }
  LAMINA_SIMD static void store32(Element* out, Float a, Float b) {
    _mm512_storeu_si512(out, table(a, b));
  }
};
#endif

// Stores the values of 32 indices below kNumValues, where value(x) is the value of index x, as a
// float. A table of all values needs less work than 32 single ones.
template <typename Out, int kNumValues, typename Value>
LAMINA_SIMD void store_indexed(typename Out::Element* out, Bytes32 indices, const Value& value) {
#if defined(__AVX512F__)
  if constexpr (Out::kHasTables) {
    const Float low = value(numbers(0));
    const __m512i table = Out::table(low, kNumValues > kLanes ? value(numbers(kLanes)) : low);
    const __m512i lanes = _mm512_cvtepu8_epi16(reinterpret_cast<__m256i>(indices.raw));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(lanes, table));
    return;
  }
#endif
  Out::store32(out, value(convert<Float>(unsigned_lanes(first_half(indices)))),
               value(convert<Float>(unsigned_lanes(second_half(indices)))));
}

}  // namespace
}  // namespace lamina::cpu
