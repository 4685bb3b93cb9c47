#include "formats/block_formats.h"

#include <bit>
#include <cstring>

#include "core/float16.h"
#include "formats/fp4.h"
#include "formats/fp8.h"

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

template <int kValues>
void widen_fp8(const std::byte* block, float* out) {
  float scale;
  std::memcpy(&scale, block, sizeof scale);
  const Byte* values = bytes_of(block) + sizeof scale;
  for (int i = 0; i < kValues; ++i) out[i] = kE4m3[values[i]] * scale;
}

constexpr BlockFormat kFormats[] = {
    {"Q4_0", 2, 32, 18, widen_q4_0},
    {"Q4_1", 3, 32, 20, widen_q4_1},
    {"Q5_0", 6, 32, 22, widen_q5_0},
    {"Q5_1", 7, 32, 24, widen_q5_1},
    {"Q8_0", 8, 32, 34, widen_q8_0},
    {"Q4_K", 12, 256, 144, widen_q4_k},
    {"Q5_K", 13, 256, 176, widen_q5_k},
    {"Q6_K", 14, 256, 210, widen_q6_k},
    {"MXFP4", 39, 32, 17, widen_mxfp4},
    // Scales of published models span 128 columns; small models have fewer.
    {"FP8", kNoGgufType, 128, 132, widen_fp8<128>},
    {"FP8_32", kNoGgufType, 32, 36, widen_fp8<32>},
};

}  // namespace

std::span<const BlockFormat> block_formats() { return kFormats; }

const BlockFormat* find_block_format(std::uint32_t gguf_type) {
  if (gguf_type == kNoGgufType) return nullptr;
  for (const BlockFormat& format : kFormats)
    if (format.gguf_type == gguf_type) return &format;
  return nullptr;
}

const BlockFormat& mxfp4_format() {
  static const BlockFormat* const format = find_block_format(39);
  return *format;
}

const BlockFormat* fp8_format(std::int64_t num_values) {
  for (const BlockFormat& format : kFormats)
    if (format.gguf_type == kNoGgufType && format.num_values == num_values) return &format;
  return nullptr;
}

}  // namespace lamina::formats
