#include "formats/block_formats.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "core/float16.h"
#include "formats/fp4.h"
#include "formats/fp8.h"
#include "formats/iq4.h"
#include "formats/lookup.h"

namespace lamina::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read in place");

using Byte = std::uint8_t;

const Byte* bytes_of(const std::byte* block) { return reinterpret_cast<const Byte*>(block); }

float half_at(const Byte* at) {
  float16 value;
  std::memcpy(&value, at, sizeof value);
  return to_float(value);
}

float signed_at(const Byte* at) { return static_cast<float>(static_cast<std::int8_t>(*at)); }
int low(Byte pair) { return pair & 15; }
int high(Byte pair) { return pair >> 4; }

// Blocks of 32: the low nibbles of 16 bytes are the first 16 values, the high nibbles the others.

void widen_q8_0(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = scale * signed_at(b + 2 + i);
}

void widen_q4_0(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(low(b[2 + i]) - 8);
    out[i + 16] = scale * static_cast<float>(high(b[2 + i]) - 8);
  }
}

void widen_q4_1(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b), least = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(low(b[4 + i])) + least;
    out[i + 16] = scale * static_cast<float>(high(b[4 + i])) + least;
  }
}

// The fifth bit of value i is bit i of 32.
int fifth_bit(const Byte* bits, int i) { return (bits[i / 8] >> i % 8 & 1) << 4; }

void widen_q5_0(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((low(b[6 + i]) | fifth_bit(b + 2, i)) - 16);
    out[i + 16] = scale * static_cast<float>((high(b[6 + i]) | fifth_bit(b + 2, i + 16)) - 16);
  }
}

void widen_q5_1(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b), least = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(low(b[8 + i]) | fifth_bit(b + 4, i)) + least;
    out[i + 16] = scale * static_cast<float>(high(b[8 + i]) | fifth_bit(b + 4, i + 16)) + least;
  }
}

// E2M1 values, preceded by the exponent of their scale as the first byte.
void widen_mxfp4(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = e8m0(b[0]);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * kE2m1[static_cast<std::size_t>(low(b[1 + i]))];
    out[i + 16] = scale * kE2m1[static_cast<std::size_t>(high(b[1 + i]))];
  }
}

// Blocks of 256 in parts of 32, each with a scale and an offset of 6 bits, packed into 12 bytes:
// the first four parts in the low 6 bits, the others in nibbles and the upper 2 bits.
struct PartScale {
  float scale, offset;
};

PartScale part_scale(const Byte* b, int part) {
  const Byte* packed = b + 4;
  int scale, offset;
  if (part < 4) {
    scale = packed[part] & 63;
    offset = packed[part + 4] & 63;
  } else {
    scale = low(packed[part + 4]) | packed[part - 4] >> 6 << 4;
    offset = high(packed[part + 4]) | packed[part] >> 6 << 4;
  }
  return {half_at(b) * static_cast<float>(scale), half_at(b + 2) * static_cast<float>(offset)};
}

void widen_q4_k(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  for (int part = 0; part < 8; ++part) {
    const PartScale s = part_scale(b, part);
    const Byte* pairs = b + 16 + part / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = part % 2 == 0 ? low(pairs[i]) : high(pairs[i]);
      out[part * 32 + i] = s.scale * static_cast<float>(value) - s.offset;
    }
  }
}

void widen_q5_k(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const Byte* fifth = b + 16;  // bit `part` of byte i
  for (int part = 0; part < 8; ++part) {
    const PartScale s = part_scale(b, part);
    const Byte* pairs = b + 48 + part / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = (part % 2 == 0 ? low(pairs[i]) : high(pairs[i])) | (fifth[i] >> part & 1)
                                                                               << 4;
      out[part * 32 + i] = s.scale * static_cast<float>(value) - s.offset;
    }
  }
}

// Two halves of 128, each with four parts of 32 that share bytes: two parts share the nibbles, all
// four the bytes of upper bits. 16 values share a scale.
void widen_q6_k(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b + 208);
  for (int half = 0; half < 2; ++half) {
    const Byte *pairs = b + half * 64, *upper = b + 128 + half * 32, *scales = b + 192 + half * 8;
    for (int part = 0; part < 4; ++part)
      for (int i = 0; i < 32; ++i) {
        const Byte pair = pairs[part % 2 * 32 + i];
        const int value = (part < 2 ? low(pair) : high(pair)) | (upper[i] >> 2 * part & 3) << 4;
        out[half * 128 + part * 32 + i] =
            scale * signed_at(scales + part * 2 + i / 16) * static_cast<float>(value - 32);
      }
  }
}

// Four parts of 32 values share 32 bytes, two bits each. 16 values share a scale and an offset of
// 4 bits, which precede the values; the factors of both follow them.
void widen_q2_k(const std::byte* block, float* out) {
  const Byte *scales = bytes_of(block), *values = scales + 16;
  const float scale = half_at(scales + 80), offset = half_at(scales + 82);
  for (int i = 0; i < 256; ++i) {
    const Byte of_part = scales[i / 16];
    const int value = values[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
    out[i] = scale * static_cast<float>(low(of_part)) * static_cast<float>(value) -
             offset * static_cast<float>(high(of_part));
  }
}

// As Q2_K with a third bit: a bit that is clear subtracts 4. 16 values share a scale of 6 bits: the
// low nibbles of 8 bytes, their high nibbles, and the upper bits in 4 bytes that follow.
void widen_q3_k(const std::byte* block, float* out) {
  const Byte *third = bytes_of(block), *values = third + 32, *scales = third + 96;
  const float scale = half_at(third + 108);
  for (int i = 0; i < 256; ++i) {
    const int part = i / 16;
    const int lower = scales[part % 8] >> part / 8 * 4 & 15;
    const int upper = scales[8 + part % 4] >> part / 4 * 2 & 3;
    const int value = values[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
    const int signed_value = third[i % 32] >> i / 32 & 1 ? value : value - 4;
    out[i] =
        scale * static_cast<float>((lower | upper << 4) - 32) * static_cast<float>(signed_value);
  }
}

float iq4(int index) { return kIq4[static_cast<std::size_t>(index)]; }

void widen_iq4_nl(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * iq4(low(b[2 + i]));
    out[i + 16] = scale * iq4(high(b[2 + i]));
  }
}

// Parts of 32 with the layout of IQ4_NL. Their scales have 6 bits: the upper two in 16 bits, then
// the lower four.
void widen_iq4_xs(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = half_at(b);
  for (int part = 0; part < 8; ++part) {
    const int lower = b[4 + part / 2] >> part % 2 * 4 & 15, upper = b[2 + part / 4] >> part % 4 * 2;
    const float of_part = scale * static_cast<float>((lower | (upper & 3) << 4) - 32);
    const Byte* pairs = b + 8 + part * 16;
    for (int i = 0; i < 16; ++i) {
      out[part * 32 + i] = of_part * iq4(low(pairs[i]));
      out[part * 32 + i + 16] = of_part * iq4(high(pairs[i]));
    }
  }
}

template <typename T>
float float_at(const Byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return to_float(value);
}

template <typename Scale, int kValues>
void widen_int8(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  const float scale = float_at<Scale>(b);
  for (int i = 0; i < kValues; ++i) out[i] = scale * signed_at(b + 2 + i);
}

// The low nibbles are the first half of the values, the high nibbles the others.
template <int kValues>
void widen_int4(const Byte* pairs, float scale, float zero, float* out) {
  for (int i = 0; i < kValues / 2; ++i) {
    out[i] = scale * (static_cast<float>(low(pairs[i])) - zero);
    out[i + kValues / 2] = scale * (static_cast<float>(high(pairs[i])) - zero);
  }
}

template <typename Scale, int kValues>
void widen_int4(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  widen_int4<kValues>(b + 2, float_at<Scale>(b), 8.f, out);
}

template <typename Scale, int kValues>
void widen_int4z(const std::byte* block, float* out) {
  const Byte* b = bytes_of(block);
  widen_int4<kValues>(b + 4, float_at<Scale>(b), float_at<Scale>(b + 2), out);
}

// 64 values in groups of 16, so that the global scale adds half a bit to a value. It is divided by
// here, because the product with a rounded reciprocal has other bits.
void widen_nvfp4(const std::byte* block, float* out) {
  const Byte *scales = bytes_of(block) + 4, *pairs = scales + 4;
  float global;
  std::memcpy(&global, block, sizeof global);
  for (int i = 0; i < 32; ++i) {
    const float first = kE4m3[scales[i / 16]] / global;
    const float second = kE4m3[scales[2 + i / 16]] / global;
    out[i] = kE2m1[static_cast<std::size_t>(low(pairs[i]))] * first;
    out[i + 32] = kE2m1[static_cast<std::size_t>(high(pairs[i]))] * second;
  }
}

template <int kValues>
void widen_fp8(const std::byte* block, float* out) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  const Byte* values = bytes_of(block) + sizeof scale;
  for (int i = 0; i < kValues; ++i) out[i] = kE4m3[values[i]] * scale;
}

// Groups with a scale of 2 bytes.
template <typename Scale, int kValues>
constexpr BlockFormat int8_format(std::string_view name) {
  return {name, kNoGgufType, kValues, 2 + kValues, widen_int8<Scale, kValues>};
}
template <typename Scale, int kValues>
constexpr BlockFormat int4_format(std::string_view name) {
  return {name, kNoGgufType, kValues, 2 + kValues / 2, widen_int4<Scale, kValues>};
}
template <typename Scale, int kValues>
constexpr BlockFormat int4z_format(std::string_view name) {
  return {name, kNoGgufType, kValues, 4 + kValues / 2, widen_int4z<Scale, kValues>};
}

constexpr BlockFormat kFormats[] = {
    {"Q4_0", 2, 32, 18, widen_q4_0},
    {"Q4_1", 3, 32, 20, widen_q4_1},
    {"Q5_0", 6, 32, 22, widen_q5_0},
    {"Q5_1", 7, 32, 24, widen_q5_1},
    {"Q8_0", 8, 32, 34, widen_q8_0},
    {"Q2_K", 10, 256, 84, widen_q2_k},
    {"Q3_K", 11, 256, 110, widen_q3_k},
    {"Q4_K", 12, 256, 144, widen_q4_k},
    {"Q5_K", 13, 256, 176, widen_q5_k},
    {"Q6_K", 14, 256, 210, widen_q6_k},
    {"IQ4_NL", 20, 32, 18, widen_iq4_nl},
    {"IQ4_XS", 23, 256, 136, widen_iq4_xs},
    {"MXFP4", 39, 32, 17, widen_mxfp4},
    // Scales of published models span 128 columns; small models have fewer.
    {"FP8", kNoGgufType, 128, 132, widen_fp8<128>},
    {"FP8_32", kNoGgufType, 32, 36, widen_fp8<32>},
    {"NVFP4", kNoGgufType, 64, 40, widen_nvfp4},
    // With f16 scales and 32 values these are Q8_0 and Q4_0.
    int8_format<bfloat16, 32>("INT8_32"),
    int8_format<bfloat16, 64>("INT8_64"),
    int8_format<bfloat16, 128>("INT8_128"),
    int8_format<float16, 64>("INT8_64_F16"),
    int8_format<float16, 128>("INT8_128_F16"),
    int4_format<bfloat16, 32>("INT4_32"),
    int4_format<bfloat16, 64>("INT4_64"),
    int4_format<bfloat16, 128>("INT4_128"),
    int4_format<float16, 64>("INT4_64_F16"),
    int4_format<float16, 128>("INT4_128_F16"),
    int4z_format<bfloat16, 32>("INT4Z_32"),
    int4z_format<bfloat16, 64>("INT4Z_64"),
    int4z_format<bfloat16, 128>("INT4Z_128"),
    int4z_format<float16, 32>("INT4Z_32_F16"),
    int4z_format<float16, 64>("INT4Z_64_F16"),
    int4z_format<float16, 128>("INT4Z_128_F16"),
};

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

const BlockFormat* find_block_format(std::uint32_t gguf_type) {
  if (gguf_type == kNoGgufType) return nullptr;
  for (const BlockFormat& format : kFormats)
    if (format.gguf_type == gguf_type) return &format;
  return nullptr;
}

const BlockFormat* block_format_named(std::string_view name) {
  for (const BlockFormat& format : kFormats)
    if (format.name == name) return &format;
  return nullptr;
}

const BlockFormat& mxfp4_format() {
  static const BlockFormat* const format = block_format_named("MXFP4");
  return *format;
}

const BlockFormat& nvfp4_format() {
  static const BlockFormat* const format = block_format_named("NVFP4");
  return *format;
}

const BlockFormat* fp8_format(std::int64_t num_values) {
  const BlockFormat* format = block_format_named(num_values == 128 ? "FP8" : "FP8_32");
  return format->num_values == num_values ? format : nullptr;
}

const BlockFormat* int_format(const IntGroup& group) {
  if (group.scale != DType::bf16 && group.scale != DType::f16) return nullptr;
  if (group.scale == DType::f16 && group.num_values == 32 && !group.has_zero_point)
    return block_format_named(group.bits == 8 ? "Q8_0" : group.bits == 4 ? "Q4_0" : "");
  return block_format_named(fmt::format("INT{}{}_{}{}", group.bits, group.has_zero_point ? "Z" : "",
                                        group.num_values, group.scale == DType::f16 ? "_F16" : ""));
}

}  // namespace lamina::formats
