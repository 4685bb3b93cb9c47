// Widens blocks, for one instruction set. A value is computed by the operations of its format's
// definition (formats/block_formats.cc) in their order, so that its bits are equal.
#include "backends/cpu/stored/widen_simd.h"

#include "backends/cpu/stored/block_numbers_simd.h"
#include "formats/fp4.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

using Bytes = Vec<std::uint8_t, kLanes>;
using Bytes32 = Vec<std::uint8_t, 2 * kLanes>;

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
  return convert<Int>(bits_as<Vec<std::int8_t, kLanes>>(x));
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
// The machine takes numbers below 2^-126 for 0: only for values that are none.
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

// ---- Formats ------------------------------------------------------------------------------------
// Each has: kValues and kBytes of a block; is_normal(block): all values are 0 or at least 2^-126;
// widen<Out>(block, out). Scales in f16 are at least 2^-24, so their multiples are normal.

struct Normal {
  LAMINA_SIMD static bool is_normal(const std::byte*) { return true; }
};

struct Q8_0 : Normal {
  static constexpr int kValues = 32, kBytes = 34;
  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Float scale = splat(f16_at(b));
    Out::store32(out, scale * convert<Float>(signed_lanes(load_bytes(b + 2))),
                 scale * convert<Float>(signed_lanes(load_bytes(b + 18))));
  }
};

// 32 values of 4 or 5 bits, with a scale and perhaps an offset that is added. The low halves of 16
// bytes are the first 16 values; bit i of 32 is the fifth bit of value i. Without an offset, half
// of the range is subtracted.
template <bool kHasOffset, bool kHasFifthBit>
struct Bits : Normal {
  static constexpr int kValues = 32, kAt = kHasOffset ? 4 : 2,
                       kPairs = kHasFifthBit ? kAt + 4 : kAt;
  static constexpr int kBytes = kPairs + 16, kNumbers = kHasFifthBit ? 32 : 16;

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Float scale = splat(f16_at(b));
    const Bytes pairs = load_bytes(b + kPairs);
    Bytes first = low_nibbles(pairs), second = high_nibbles(pairs);
    if constexpr (kHasFifthBit) {
      first = first | sixteens(b + kAt);
      second = second | sixteens(b + kAt + 2);
    }
    store_indexed<Out, kNumbers>(out, both_halves(first, second), [&](Float x) {
      if constexpr (kHasOffset)
        return scale * x + splat(f16_at(b + 2));
      else
        return scale * (x - splat(float{kNumbers / 2}));
    });
  }
};

struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17;
  LAMINA_SIMD static bool is_normal(const std::byte* b) { return std::to_integer<int>(b[0]) >= 2; }

  LAMINA_SIMD static Float e2m1(Bytes nibbles) {
#if defined(__AVX512F__)
    const __m512i index = _mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(nibbles.raw));
    return {_mm512_permutexvar_ps(index, _mm512_loadu_ps(formats::kE2m1.data()))};
#elif defined(__AVX2__)
    const __m256 sizes = _mm256_loadu_ps(formats::kE2m1.data());
    const Int index = unsigned_lanes(nibbles);
    const auto value = [&](Vec<std::int32_t, 8> i) -> Vec<float, 8> {
      const __m256i lanes = reinterpret_cast<__m256i>(i.raw);
      const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(lanes, 3), 31));
      return {_mm256_xor_ps(_mm256_permutevar8x32_ps(sizes, lanes), sign)};
    };
    return {value(index.lo), value(index.hi)};
#else
    float lanes[kLanes];
    std::uint8_t index[kLanes];
    store_raw(index, nibbles);
    for (int i = 0; i < kLanes; ++i) lanes[i] = formats::kE2m1[index[i]];
    return load(lanes);
#endif
  }

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Float scale = splat(formats::e8m0(std::to_integer<std::uint8_t>(b[0])));
    const Bytes pairs = load_bytes(b + 1);
    const Bytes first = low_nibbles(pairs), second = high_nibbles(pairs);
    if constexpr (Out::kHasTables)
      store_indexed<Out, kLanes>(out, both_halves(first, second),
                                 [&](Float) { return scale * load(formats::kE2m1.data()); });
    else
      Out::store32(out, scale * e2m1(first), scale * e2m1(second));
  }
};

template <int kNumValues>
struct Fp8 {
  static constexpr int kValues = kNumValues, kBytes = kNumValues + 4;

  LAMINA_SIMD static float scale_of(const std::byte* b) {
    float scale;
    __builtin_memcpy(&scale, b, sizeof scale);
    return scale;
  }
  // The smallest value is 2^-9 times the scale.
  LAMINA_SIMD static bool is_normal(const std::byte* b) {
    const float scale = scale_of(b);
    return scale >= 0x1p-117f || scale <= -0x1p-117f;
  }
  LAMINA_SIMD static bool has_nan(const std::byte* b) {
    const Bytes size = splat<Bytes>(127);
    Bytes::Raw any{};
    for (int i = 0; i < kValues; i += kLanes)
      any |= reinterpret_cast<Bytes::Raw>((load_bytes(b + 4 + i) & size).raw == size.raw);
    std::uint64_t lanes[2];
    __builtin_memcpy(lanes, &any, sizeof lanes);
    return (lanes[0] | lanes[1]) != 0;
  }

  // The value times 2^-120: its sign, and its other bits where a float has the last ones of its
  // exponent and the first ones of its mantissa. Not for NaN.
  LAMINA_SIMD static Float small(Bytes x) {
    constexpr std::uint32_t kKept = 0x87f00000;
    const Int bits = shift_left(signed_lanes(x), 20);
    return bits_as<Float>(bits & splat<Int>(static_cast<std::int32_t>(kKept)));
  }
  LAMINA_SIMD static Float e4m3(Bytes x) {
    const Int bits = unsigned_lanes(x);
    const Int nan = splat<Int>(0x7fc00000) | shift_left(bits & splat<Int>(128), 24);
    const Float value = small(x) * splat(0x1p120f);
    return bits_as<Float>(
        select((bits & splat<Int>(127)) == splat<Int>(127), nan, bits_as<Int>(value)));
  }

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const float scale = scale_of(b);
    if (__builtin_fabsf(scale) < 128 && !has_nan(b)) {
      const Float large = splat(scale * 0x1p120f);  // exact: the product is rounded once
      for (int i = 0; i < kValues; i += 32)
        Out::store32(out + i, small(load_bytes(b + 4 + i)) * large,
                     small(load_bytes(b + 4 + i + kLanes)) * large);
      return;
    }
    for (int i = 0; i < kValues; i += 32)
      Out::store32(out + i, e4m3(load_bytes(b + 4 + i)) * splat(scale),
                   e4m3(load_bytes(b + 4 + i + kLanes)) * splat(scale));
  }
};

// Eight parts of 32; two share the nibbles of 32 bytes. In Q5_K bit `part` of a byte is the fifth
// bit of a value.
template <bool kHasFifthBit>
struct FourOrFiveK : Normal {
  static constexpr int kValues = 256, kBytes = kHasFifthBit ? 176 : 144;
  static constexpr int kPairs = kHasFifthBit ? 48 : 16, kNumbers = kHasFifthBit ? 32 : 16;

  // Scales and offsets of the parts: 6 bits each, see formats/block_formats.cc.
  LAMINA_SIMD static void scales_of(const std::byte* b, float* scales, float* offsets) {
    const float scale = f16_at(b), offset = f16_at(b + 2);
    const auto byte = [&](int i) { return std::to_integer<int>(b[4 + i]); };
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      scales[i] = scale * static_cast<float>(byte(i) & 63);
      offsets[i] = offset * static_cast<float>(byte(i + 4) & 63);
      scales[i + 4] = scale * static_cast<float>((byte(i + 8) & 15) | byte(i) >> 6 << 4);
      offsets[i + 4] = offset * static_cast<float>(byte(i + 8) >> 4 | byte(i + 4) >> 6 << 4);
    }
  }

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    float scales[8], offsets[8];
    scales_of(b, scales, offsets);
#pragma GCC unroll 8
    for (int part = 0; part < 8; ++part) {
      const Bytes32 pairs = load_bytes32(b + kPairs + part / 2 * 32);
      Bytes32 index = part % 2 == 0 ? low_nibbles(pairs) : high_nibbles(pairs);
      if constexpr (kHasFifthBit) {
        const Bytes32 fifth = shift_right(load_bytes32(b + 16), part) & splat<Bytes32>(1);
        index = index | shift_left(fifth, 4);
      }
      store_indexed<Out, kNumbers>(out + part * 32, index, [&](Float x) {
        return splat(scales[part]) * x - splat(offsets[part]);
      });
    }
  }
};

// Two halves of 128, each with four parts of 32: two share nibbles, all four the bytes of upper
// bits. 16 values share a scale.
struct Q6K : Normal {
  static constexpr int kValues = 256, kBytes = 210;

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const float scale = f16_at(b + 208);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const std::byte *pairs = b + half * 64, *upper = b + 128 + half * 32;
      const std::byte* scales = b + 192 + half * 8;
#pragma GCC unroll 4
      for (int part = 0; part < 4; ++part) {
        const Bytes32 both = load_bytes32(pairs + part % 2 * 32);
        const Bytes32 nibbles = part < 2 ? low_nibbles(both) : high_nibbles(both);
        const Bytes32 bits = shift_right(load_bytes32(upper), 2 * part) & splat<Bytes32>(3);
        const Bytes32 number = (nibbles | shift_left(bits, 4)) - splat<Bytes32>(32);
        const auto value = [&](Bytes of_scale, int i) {
          const auto of_part = std::to_integer<std::int8_t>(scales[part * 2 + i]);
          return splat(scale * static_cast<float>(of_part)) *
                 convert<Float>(signed_lanes(of_scale));
        };
        Out::store32(out + half * 128 + part * 32, value(first_half(number), 0),
                     value(second_half(number), 1));
      }
    }
  }
};

// ---- Rows ---------------------------------------------------------------------------------------

// Memory is read this far ahead.
constexpr int kAheadBytes = 4096;

template <typename Format, typename Out>
void widen_blocks(const std::byte* blocks, std::int64_t count, void* to) {
  auto* out = static_cast<typename Out::Element*>(to);
  for (; count > 0; count -= Format::kValues) {
    for (int line = 0; line < Format::kBytes; line += 64)
      __builtin_prefetch(blocks + kAheadBytes + line, 0, 2);
    Format::template widen<Out>(blocks, out);
    blocks += Format::kBytes;
    out += Format::kValues;
  }
}

#if defined(__AVX512BF16__)
template <typename Format>
void widen_by_machine(const std::byte* blocks, std::int64_t count, void* to) {
  auto* out = static_cast<bfloat16*>(to);
  for (; count > 0; count -= Format::kValues) {
    for (int line = 0; line < Format::kBytes; line += 64)
      __builtin_prefetch(blocks + kAheadBytes + line, 0, 2);
    if (Format::is_normal(blocks))
      Format::template widen<MachineBf16>(blocks, out);
    else
      Format::template widen<Bf16>(blocks, out);
    blocks += Format::kBytes;
    out += Format::kValues;
  }
}
#endif

template <typename Format>
constexpr WidenFunctions::Format functions_of(std::string_view name) {
#if defined(__AVX512BF16__)
  return {name, widen_blocks<Format, F32>, widen_blocks<Format, Bf16>, widen_by_machine<Format>};
#else
  return {name, widen_blocks<Format, F32>, widen_blocks<Format, Bf16>};
#endif
}

constexpr WidenFunctions::Format kFormats[] = {
    functions_of<Bits<false, false>>("Q4_0"),
    functions_of<Bits<true, false>>("Q4_1"),
    functions_of<Bits<false, true>>("Q5_0"),
    functions_of<Bits<true, true>>("Q5_1"),
    functions_of<Q8_0>("Q8_0"),
    functions_of<FourOrFiveK<false>>("Q4_K"),
    functions_of<FourOrFiveK<true>>("Q5_K"),
    functions_of<Q6K>("Q6_K"),
    functions_of<Mxfp4>("MXFP4"),
    functions_of<Fp8<128>>("FP8"),
    functions_of<Fp8<32>>("FP8_32"),
};

void round_values(const float* values, std::int64_t count, void* out) {
  auto* to = static_cast<bfloat16*>(out);
  for_lanes(count, [&](std::int64_t i, int n) { store_some(to + i, load_some(values + i, n), n); });
}

constexpr WidenFunctions kFunctions = {kFormats, std::size(kFormats), round_values};

}  // namespace

constinit const WidenFunctions WidenFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
