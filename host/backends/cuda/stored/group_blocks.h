// Groups of integers, FP4 and FP8 numbers with their scales, decoded in registers: see blocks.h.
#pragma once

#include "backends/cuda/stored/numbers.h"

namespace lamina::cuda::stored {

// Groups of integers after their scale; Q8_0 of GGUF too.
template <typename Scale, int kNumValues>
struct Int8 {
  static constexpr int kValues = kNumValues, kBytes = kNumValues + 2, kAlignment = 2;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = float_at<Scale>(block, 0);
    int v[8];
    bytes_at<2>(block, 2 + first, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<std::int8_t>(v[i]));
  }
};

// The low halves of bytes are the first half of the values, the high halves the others.
template <typename Scale, int kNumValues, bool kZeroPoint = false>
struct Int4 {
  static constexpr int kHeader = kZeroPoint ? 4 : 2, kHalf = kNumValues / 2;
  static constexpr int kValues = kNumValues, kBytes = kHalf + kHeader, kAlignment = kHeader;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = float_at<Scale>(block, 0);
    float zero = 8.f;
    if constexpr (kZeroPoint) zero = float_at<Scale>(block, 2);
    int v[8];
    nibbles_at<kHeader>(block, kHeader + first % kHalf, first >= kHalf, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(v[i]) - zero);
  }
};

template <int kNumValues>
using Int8Bf16 = Int8<gpu::bfloat16, kNumValues>;
template <int kNumValues>
using Int8F16 = Int8<gpu::float16, kNumValues>;
template <int kNumValues>
using Int4Bf16 = Int4<gpu::bfloat16, kNumValues>;
template <int kNumValues>
using Int4F16 = Int4<gpu::float16, kNumValues>;
template <int kNumValues>
using Int4ZBf16 = Int4<gpu::bfloat16, kNumValues, true>;
template <int kNumValues>
using Int4ZF16 = Int4<gpu::float16, kNumValues, true>;

// E2M1 numbers after the exponent of their scale.
struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17, kAlignment = 1;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const int exponent = block[0];
    const int bits = exponent == 255 ? 0x7fc0 : exponent == 0 ? 0x40 : exponent << 7;
    const float scale = gpu::widen(gpu::bfloat16{static_cast<std::uint16_t>(bits)});
    int v[8];
    nibbles_at<1>(block, 1 + first % 16, first >= 16, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = scale * e2m1(v[i]);
  }
};

// E2M1 numbers in groups of 16 with scales in e4m3, which are divided by a global scale.
struct Nvfp4 {
  static constexpr int kValues = 64, kBytes = 40, kAlignment = 8;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = divide(e4m3(block[4 + first / 16]), single_at(block, 0));
    int v[8];
    nibbles_at<8>(block, 8 + first % 32, first >= 32, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = e2m1(v[i]) * scale;
  }
};

// E4M3 numbers after their scale in f32.
template <int kNumValues>
struct Fp8 {
  static constexpr int kValues = kNumValues, kBytes = kNumValues + 4, kAlignment = 4;
  static LAMINA_GPU_FUNCTION void widen8(StoredBytes block, int first, float (&out)[8]) {
    const float scale = single_at(block, 0);
    int v[8];
    bytes_at<4>(block, 4 + first, v);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 8; ++i) out[i] = e4m3(v[i]) * scale;
  }
};

}  // namespace lamina::cuda::stored
