// Values stored in blocks, decoded in registers, for the formats of formats/block_formats.h: by the
// same products and sums, so with the same bits.
//
// A format has kValues values in kBytes bytes, which begin at a multiple of kAlignment bytes if the
// first block does, and
//   widen8(block, first, out): values [first, first + 8) of a block; first is a multiple of 8.
#pragma once

#ifndef __CUDACC__
#include <bit>
#endif

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::stored {

using StoredBytes = gpu::Global<const std::uint8_t>;

LAMINA_GPU_FUNCTION float float_of_bits(std::uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

LAMINA_GPU_FUNCTION float half_at(StoredBytes block, int at) {
  const gpu::Vector<std::uint8_t, 2> b = gpu::load_vector<2>(block, at);
  return gpu::widen(gpu::float16{static_cast<std::uint16_t>(b.values[0] | b.values[1] << 8)});
}

// Loads the 8 bytes at `at`, a multiple of kAlignment.
template <int kAlignment>
LAMINA_GPU_FUNCTION void bytes_at(StoredBytes block, int at, int (&out)[8]) {
  constexpr int kStep = kAlignment < 8 ? kAlignment : 8;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 8; i += kStep) {
    const gpu::Vector<std::uint8_t, kStep> b = gpu::load_vector<kStep>(block, at + i);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kStep; ++j) out[i + j] = b.values[j];
  }
}

// Loads 8 pairs of 4-bit numbers, and returns the low or the high ones.
template <int kAlignment>
LAMINA_GPU_FUNCTION void nibbles_at(StoredBytes block, int at, bool high, int (&out)[8]) {
  bytes_at<kAlignment>(block, at, out);
  const int shift = high ? 4 : 0;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 8; ++i) out[i] = out[i] >> shift & 15;
}

struct Q80 {
  static constexpr int kValues = 32, kBytes = 34, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = half_at(block, 0);
    int v[8];
    bytes_at<2>(block, 2 + first, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<std::int8_t>(v[i]));
  }
};

// Blocks of 32: the low halves of 16 bytes are the first 16 values, the high halves the others.

struct Q40 {
  static constexpr int kValues = 32, kBytes = 18, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = half_at(block, 0);
    int v[8];
    nibbles_at<2>(block, 2 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(v[i] - 8);
  }
};

struct Q41 {
  static constexpr int kValues = 32, kBytes = 20, kAlignment = 4;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = half_at(block, 0), least = half_at(block, 2);
    int v[8];
    nibbles_at<4>(block, 4 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(v[i]) + least;
  }
};

// The fifth bit of value i is bit i of 32.
struct Q50 {
  static constexpr int kValues = 32, kBytes = 22, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = half_at(block, 0);
    const int fifth = block[2 + first / 8];
    int v[8];
    nibbles_at<2>(block, 6 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i)
      out[i] = scale * static_cast<float>((v[i] | (fifth >> i & 1) << 4) - 16);
  }
};

struct Q51 {
  static constexpr int kValues = 32, kBytes = 24, kAlignment = 8;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = half_at(block, 0), least = half_at(block, 2);
    const int fifth = block[4 + first / 8];
    int v[8];
    nibbles_at<8>(block, 8 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i)
      out[i] = scale * static_cast<float>(v[i] | (fifth >> i & 1) << 4) + least;
  }
};

// E2M1 numbers after the exponent of their scale. As the upper bits of a half they are 2^-14 times
// their value.
struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17, kAlignment = 1;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int exponent = block[0];
    const int bits = exponent == 255 ? 0x7fc0 : exponent == 0 ? 0x40 : exponent << 7;
    const float scale = gpu::widen(gpu::bfloat16{static_cast<std::uint16_t>(bits)});
    int v[8];
    nibbles_at<1>(block, 1 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int half = (v[i] & 8) << 12 | (v[i] & 7) << 9;
      out[i] = scale * (gpu::widen(gpu::float16{static_cast<std::uint16_t>(half)}) * 0x1p14f);
    }
  }
};

// Blocks of 256 in parts of 32, each with a scale and an offset of 6 bits, packed into 12 bytes:
// the first four parts in the low 6 bits, the others in halves of bytes and the upper 2 bits.
LAMINA_GPU_FUNCTION void part_scale(StoredBytes block, int part, float& scale, float& offset) {
  const StoredBytes packed = block + 4;
  int s, o;
  if (part < 4) {
    s = packed[part] & 63;
    o = packed[part + 4] & 63;
  } else {
    s = (packed[part + 4] & 15) | packed[part - 4] >> 6 << 4;
    o = packed[part + 4] >> 4 | packed[part] >> 6 << 4;
  }
  scale = half_at(block, 0) * static_cast<float>(s);
  offset = half_at(block, 2) * static_cast<float>(o);
}

struct Q4K {
  static constexpr int kValues = 256, kBytes = 144, kAlignment = 16;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int part = first / 32;
    float scale, offset;
    part_scale(block, part, scale, offset);
    int v[8];
    nibbles_at<8>(block, 16 + part / 2 * 32 + first % 32, part % 2 != 0, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(v[i]) - offset;
  }
};

struct Q5K {
  static constexpr int kValues = 256, kBytes = 176, kAlignment = 16;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int part = first / 32;
    float scale, offset;
    part_scale(block, part, scale, offset);
    int v[8], fifth[8];
    nibbles_at<8>(block, 48 + part / 2 * 32 + first % 32, part % 2 != 0, v);
    bytes_at<8>(block, 16 + first % 32, fifth);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i)
      out[i] = scale * static_cast<float>(v[i] | (fifth[i] >> part & 1) << 4) - offset;
  }
};

// Two halves of 128, each with four parts of 32: two parts share the halves of bytes, all four the
// bytes of upper bits. 16 values share a scale.
struct Q6K {
  static constexpr int kValues = 256, kBytes = 210, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int half = first / 128, part = first % 128 / 32, i = first % 32;
    const auto s = static_cast<std::int8_t>(block[192 + half * 8 + part * 2 + i / 16]);
    const float scale = half_at(block, 208) * static_cast<float>(s);
    int v[8], upper[8];
    nibbles_at<2>(block, half * 64 + part % 2 * 32 + i, part >= 2, v);
    bytes_at<2>(block, 128 + half * 32 + i, upper);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < 8; ++j)
      out[j] = scale * static_cast<float>((v[j] | (upper[j] >> 2 * part & 3) << 4) - 32);
  }
};

// E4M3 numbers after their scale in f32. As the upper bits of a half they are 2^-8 times their
// value.
template <int kNumValues>
struct Fp8 {
  static constexpr int kValues = kNumValues, kBytes = kNumValues + 4, kAlignment = 4;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const gpu::Vector<std::uint8_t, 4> s = gpu::load_vector<4>(block, 0);
    std::uint32_t bits = 0;
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(s.values[i]) << 8 * i;
    const float scale = float_of_bits(bits);
    int v[8];
    bytes_at<4>(block, 4 + first, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) {
      // E4M3 has no infinities: all bits set are NaN.
      const bool is_nan = (v[i] & 127) == 127;
      const int half = (v[i] & 128) << 8 | (is_nan ? 0x7e00 : (v[i] & 127) << 7);
      out[i] = gpu::widen(gpu::float16{static_cast<std::uint16_t>(half)}) * 0x1p8f * scale;
    }
  }
};
using Fp8_128 = Fp8<128>;
using Fp8_32 = Fp8<32>;

// X(name, type) for each format; the name is the one of formats/block_formats.h in small letters.
#define LAMINA_STORED_FORMATS(X) \
  X(q4_0, Q40)                   \
  X(q4_1, Q41)                   \
  X(q5_0, Q50)                   \
  X(q5_1, Q51)                   \
  X(q8_0, Q80)                   \
  X(q4_k, Q4K)                   \
  X(q5_k, Q5K)                   \
  X(q6_k, Q6K)                   \
  X(mxfp4, Mxfp4)                \
  X(fp8, Fp8_128)                \
  X(fp8_32, Fp8_32)

}  // namespace lamina::cuda::stored
