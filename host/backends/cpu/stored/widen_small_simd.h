// Widens GGUF's formats Q2_K, Q3_K, IQ4_NL and IQ4_XS, and four-bit floats. Internal to each file
// that includes it.
#pragma once

#include <array>

#include "backends/cpu/stored/widen_values_simd.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "formats/iq4.h"

namespace lamina::cpu {
namespace {

// ---- Two and three bits -------------------------------------------------------------------------

// Two bits of 32 values, which share 32 bytes with three other parts of 128 values.
LAMINA_SIMD Bytes32 two_bits(const std::byte* pairs, int part) {
  return shift_right(load_bytes32(pairs + part / 4 * 32), part % 4 * 2) & splat<Bytes32>(3);
}

struct Q2K : Normal {
  static constexpr int kValues = 256, kBytes = 84;

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const float scale = f16_at(b + 80), offset = f16_at(b + 82);
#pragma GCC unroll 8
    for (int part = 0; part < 8; ++part) {
      const Bytes32 numbers = two_bits(b + 16, part);
      const auto value = [&](Bytes number, int i) {
        const int both = byte_at(b + 2 * part + i);
        return splat(scale * static_cast<float>(both & 15)) *
                   convert<Float>(unsigned_lanes(number)) -
               splat(offset * static_cast<float>(both >> 4));
      };
      Out::store32(out + 32 * part, value(first_half(numbers), 0), value(second_half(numbers), 1));
    }
  }
};

struct Q3K : Normal {
  static constexpr int kValues = 256, kBytes = 110;

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const float scale = f16_at(b + 108);
    const Bytes32 thirds = load_bytes32(b);
#pragma GCC unroll 8
    for (int part = 0; part < 8; ++part) {
      const Bytes32 third = shift_left(shift_right(thirds, part) & splat<Bytes32>(1), 2);
      const Bytes32 numbers = (two_bits(b + 32, part) | third) - splat<Bytes32>(4);
      const auto value = [&](Bytes number, int i) {
        const int at = 2 * part + i;
        const int lower = byte_at(b + 96 + at % 8) >> at / 8 * 4 & 15;
        const int upper = byte_at(b + 104 + at % 4) >> at / 4 * 2 & 3;
        return splat(scale * static_cast<float>((lower | upper << 4) - 32)) *
               convert<Float>(signed_lanes(number));
      };
      Out::store32(out + 32 * part, value(first_half(numbers), 0), value(second_half(numbers), 1));
    }
  }
};

// ---- IQ4 ----------------------------------------------------------------------------------------

// Stores 32 values whose indices are the nibbles of 16 bytes.
template <typename Out>
LAMINA_SIMD void store_iq4(typename Out::Element* out, const std::byte* pairs, float scale) {
  const Bytes bytes = load_bytes(pairs);
  const auto value = [&](Bytes nibbles) {
    return splat(scale) * convert<Float>(signed_lanes(look_up(formats::kIq4.data(), nibbles)));
  };
  Out::store32(out, value(low_nibbles(bytes)), value(high_nibbles(bytes)));
}

struct Iq4Nl : Normal {
  static constexpr int kValues = 32, kBytes = 18;
  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    store_iq4<Out>(out, b + 2, f16_at(b));
  }
};

struct Iq4Xs : Normal {
  static constexpr int kValues = 256, kBytes = 136;
  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const float scale = f16_at(b);
#pragma GCC unroll 8
    for (int part = 0; part < 8; ++part) {
      const int lower = byte_at(b + 4 + part / 2) >> part % 2 * 4 & 15;
      const int upper = byte_at(b + 2 + part / 4) >> part % 4 * 2 & 3;
      store_iq4<Out>(out + 32 * part, b + 8 + 16 * part,
                     scale * static_cast<float>((lower | upper << 4) - 32));
    }
  }
};

// ---- Four-bit floats ----------------------------------------------------------------------------

LAMINA_SIMD Float e2m1(Bytes nibbles) {
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

struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17;
  LAMINA_SIMD static bool is_normal(const std::byte* b) { return byte_at(b) >= 2; }

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

struct Nvfp4 {
  static constexpr int kValues = 64, kBytes = 40;

  // The smallest value is half of a scale.
  LAMINA_SIMD static bool is_normal(const std::byte* b) {
    bool out = true;
    for (int i = 0; i < 4; ++i) {
      const float size = __builtin_fabsf(nvfp4_scale_at(b, i));
      out &= size >= 0x1p-125f || size == 0;
    }
    return out;
  }
  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Bytes pairs[2] = {load_bytes(b + 8), load_bytes(b + 8 + kLanes)};
    Out::store32(out, e2m1(low_nibbles(pairs[0])) * splat(nvfp4_scale_at(b, 0)),
                 e2m1(low_nibbles(pairs[1])) * splat(nvfp4_scale_at(b, 1)));
    Out::store32(out + 32, e2m1(high_nibbles(pairs[0])) * splat(nvfp4_scale_at(b, 2)),
                 e2m1(high_nibbles(pairs[1])) * splat(nvfp4_scale_at(b, 3)));
  }
};

}  // namespace
}  // namespace lamina::cpu
