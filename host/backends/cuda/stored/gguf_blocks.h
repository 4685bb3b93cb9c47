// Blocks of GGUF files, decoded in registers: see blocks.h.
#pragma once

#include "backends/cuda/stored/numbers.h"

namespace lamina::cuda::stored {

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

LAMINA_GPU_FUNCTION void scale_and_subtract(const int (&v)[8], float scale, float offset,
                                            float (&out)[8]) {
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(v[i]) - offset;
}

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
    scale_and_subtract(v, scale, offset, out);
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

// Two bits for each of 256 values: four parts of 32 values share 32 bytes.
template <int kAlignment>
LAMINA_GPU_FUNCTION void two_bits_at(StoredBytes block, int at, int first, int (&out)[8]) {
  bytes_at<kAlignment>(block, at + first / 128 * 32 + first % 32, out);
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 8; ++i) out[i] = out[i] >> first / 32 % 4 * 2 & 3;
}

struct Q2K {
  static constexpr int kValues = 256, kBytes = 84, kAlignment = 4;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int part = block[first / 16];
    const float scale = half_at(block, 80) * static_cast<float>(part & 15);
    const float offset = half_at(block, 82) * static_cast<float>(part >> 4);
    int v[8];
    two_bits_at<4>(block, 16, first, v);
    scale_and_subtract(v, scale, offset, out);
  }
};

// A third bit that is clear subtracts 4. 16 values share a scale of 6 bits.
struct Q3K {
  static constexpr int kValues = 256, kBytes = 110, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int part = first / 16;
    const int lower = block[96 + part % 8] >> part / 8 * 4 & 15;
    const int upper = block[104 + part % 4] >> part / 4 * 2 & 3;
    const float scale = half_at(block, 108) * static_cast<float>((lower | upper << 4) - 32);
    int v[8], third[8];
    two_bits_at<2>(block, 32, first, v);
    bytes_at<2>(block, first % 32, third);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i)
      out[i] = scale * static_cast<float>(v[i] - 4 + (third[i] >> first / 32 & 1) * 4);
  }
};

// Numbers of IQ4, plus 128, in four words.
LAMINA_GPU_FUNCTION float iq4(int index) {
  const std::uint32_t word = index < 4    ? 0x3f2d1801u
                             : index < 8  ? 0x766a5d4fu
                             : index < 12 ? 0xa6998d81u
                                          : 0xf1d9c5b5u;
  return static_cast<float>(static_cast<int>(word >> index % 4 * 8 & 255) - 128);
}

struct Iq4Nl {
  static constexpr int kValues = 32, kBytes = 18, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = half_at(block, 0);
    int v[8];
    nibbles_at<2>(block, 2 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * iq4(v[i]);
  }
};

// Parts of 32 with scales of 6 bits: the upper two in 16 bits, then the lower four.
struct Iq4Xs {
  static constexpr int kValues = 256, kBytes = 136, kAlignment = 8;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int part = first / 32;
    const int lower = block[4 + part / 2] >> part % 2 * 4 & 15;
    const int upper = block[2 + part / 4] >> part % 4 * 2 & 3;
    const float scale = half_at(block, 0) * static_cast<float>((lower | upper << 4) - 32);
    int v[8];
    nibbles_at<8>(block, 8 + part * 16 + first % 16, first % 32 >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * iq4(v[i]);
  }
};

}  // namespace lamina::cuda::stored
