// Widens blocks, for one instruction set. A value is computed by the operations of its format's
// definition (formats/block_formats.cc) in their order, so that its bits are equal.
#include "backends/cpu/stored/stored_rows.h"

#include <type_traits>

#include "backends/cpu/stored/widen_fp8_simd.h"
#include "backends/cpu/stored/widen_small_simd.h"

namespace lamina::cpu {
namespace {

// ---- Formats ------------------------------------------------------------------------------------

struct Q8_0 : Normal {
  static constexpr int kValues = 32, kBytes = 34;
  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Float scale = splat(f16_at(b));
    Out::store32(out, scale * convert<Float>(signed_lanes(load_bytes(b + 2))),
                 scale * convert<Float>(signed_lanes(load_bytes(b + 18))));
  }
};

// Groups of integers with a scale in bf16 or f16: 8 bits, signed, or 4 bits, whose low nibbles are
// the first half of the group: 8 larger than the integer, or with a zero point after the scale.
template <int kBits, int kGroup, typename Scale = bfloat16, bool kZero = false>
struct Group {
  static constexpr int kValues = kGroup, kAt = kZero ? 4 : 2, kBytes = kAt + kGroup * kBits / 8;

  // A difference of a nibble and a zero point is 0 or, if the zero point is 0 or not tiny, at least
  // 2^-60.
  LAMINA_SIMD static bool is_normal(const std::byte* b) {
    if constexpr (!std::is_same_v<Scale, bfloat16>) return true;
    const auto is_large = [](float x) { return !(__builtin_fabsf(x) < 0x1p-60f); };
    if constexpr (kZero)
      return is_large(number_at<Scale>(b)) &&
             (number_at<Scale>(b + 2) == 0 || is_large(number_at<Scale>(b + 2)));
    return is_large(number_at<Scale>(b));
  }

  template <typename Out>
  LAMINA_SIMD static void widen(const std::byte* b, typename Out::Element* out) {
    const Float scale = splat(number_at<Scale>(b));
    if constexpr (kBits == 8) {
      for (int i = 0; i < kGroup; i += 32)
        Out::store32(out + i, scale * convert<Float>(signed_lanes(load_bytes(b + kAt + i))),
                     scale * convert<Float>(signed_lanes(load_bytes(b + kAt + i + kLanes))));
    } else {
      const Float zero = splat(kZero ? number_at<Scale>(b + 2) : 8.f);
      const auto value = [&](Bytes nibbles) {
        return scale * (convert<Float>(unsigned_lanes(nibbles)) - zero);
      };
      if constexpr (kGroup == 32) {
        const Bytes pairs = load_bytes(b + kAt);
        Out::store32(out, value(low_nibbles(pairs)), value(high_nibbles(pairs)));
      } else {
        for (int i = 0; i < kGroup / 2; i += 32) {
          const Bytes first = load_bytes(b + kAt + i), second = load_bytes(b + kAt + i + kLanes);
          Out::store32(out + i, value(low_nibbles(first)), value(low_nibbles(second)));
          Out::store32(out + kGroup / 2 + i, value(high_nibbles(first)),
                       value(high_nibbles(second)));
        }
      }
    }
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

// Calls widen(block, its values) for each block.
template <typename Format, typename Element, typename Widen>
LAMINA_SIMD void for_blocks(const std::byte* blocks, std::int64_t count, void* to,
                            const Widen& widen) {
  auto* out = static_cast<Element*>(to);
  for (; count > 0; count -= Format::kValues) {
    for (int line = 0; line < Format::kBytes; line += 64)
      __builtin_prefetch(blocks + kAheadBytes + line, 0, 2);
    widen(blocks, out);
    blocks += Format::kBytes;
    out += Format::kValues;
  }
}

template <typename Format, typename Out>
void widen_blocks(const std::byte* blocks, std::int64_t count, void* to) {
  using Element = typename Out::Element;
  for_blocks<Format, Element>(blocks, count, to, [](const std::byte* block, Element* out) {
    Format::template widen<Out>(block, out);
  });
}

#if defined(__AVX512BF16__)
template <typename Format>
void widen_by_machine(const std::byte* blocks, std::int64_t count, void* to) {
  for_blocks<Format, bfloat16>(blocks, count, to, [](const std::byte* block, bfloat16* out) {
    if (Format::is_normal(block))
      Format::template widen<MachineBf16>(block, out);
    else
      Format::template widen<Bf16>(block, out);
  });
}

template <typename Format>
void widen_by_table(const std::byte* blocks, std::int64_t count, void* to) {
  for_blocks<Format, bfloat16>(blocks, count, to, [](const std::byte* block, bfloat16* out) {
    Format::widen_by_table(block, out);
  });
}
#endif

template <typename Format>
constexpr WidenFunctions::Format functions_of(std::string_view name) {
#if defined(__AVX512BF16__)
  WidenBlocks by_table = nullptr;
  // For 32 values a table does not pay.
  if constexpr (std::is_same_v<Format, Fp8<128>>) by_table = widen_by_table<Format>;
  return {name, widen_blocks<Format, F32>, widen_blocks<Format, Bf16>, widen_by_machine<Format>,
          by_table};
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
    functions_of<Q2K>("Q2_K"),
    functions_of<Q3K>("Q3_K"),
    functions_of<Iq4Nl>("IQ4_NL"),
    functions_of<Iq4Xs>("IQ4_XS"),
    functions_of<Mxfp4>("MXFP4"),
    functions_of<Nvfp4>("NVFP4"),
    functions_of<Group<8, 32>>("INT8_32"),
    functions_of<Group<8, 64>>("INT8_64"),
    functions_of<Group<8, 128>>("INT8_128"),
    functions_of<Group<8, 64, float16>>("INT8_64_F16"),
    functions_of<Group<8, 128, float16>>("INT8_128_F16"),
    functions_of<Group<4, 32>>("INT4_32"),
    functions_of<Group<4, 64>>("INT4_64"),
    functions_of<Group<4, 128>>("INT4_128"),
    functions_of<Group<4, 64, float16>>("INT4_64_F16"),
    functions_of<Group<4, 128, float16>>("INT4_128_F16"),
    functions_of<Group<4, 32, bfloat16, true>>("INT4Z_32"),
    functions_of<Group<4, 64, bfloat16, true>>("INT4Z_64"),
    functions_of<Group<4, 128, bfloat16, true>>("INT4Z_128"),
    functions_of<Group<4, 32, float16, true>>("INT4Z_32_F16"),
    functions_of<Group<4, 64, float16, true>>("INT4Z_64_F16"),
    functions_of<Group<4, 128, float16, true>>("INT4Z_128_F16"),
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
