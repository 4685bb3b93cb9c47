// Reads the bytes of blocks, and numbers of few bits.
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
LAMINA_GPU_FUNCTION std::uint32_t bits_of_float(float x) {
#ifdef __CUDACC__
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}

// Returns a number of a 16-bit type T.
template <typename T>
LAMINA_GPU_FUNCTION float float_at(StoredBytes block, int at) {
  const gpu::Vector<std::uint8_t, 2> b = gpu::load_vector<2>(block, at);
  return gpu::widen(T{static_cast<std::uint16_t>(b.values[0] | b.values[1] << 8)});
}
LAMINA_GPU_FUNCTION float half_at(StoredBytes block, int at) {
  return float_at<gpu::float16>(block, at);
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

LAMINA_GPU_FUNCTION float single_at(StoredBytes block, int at) {
  const gpu::Vector<std::uint8_t, 4> b = gpu::load_vector<4>(block, at);
  std::uint32_t bits = 0;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(b.values[i]) << 8 * i;
  return float_of_bits(bits);
}

// Rounds to nearest; compilers may divide with less precision.
LAMINA_GPU_FUNCTION float divide(float x, float y) {
#ifdef __CUDACC__
  return __fdiv_rn(x, y);
#else
  return x / y;
#endif
}

// An E2M1 number. As the upper bits of a half it is 2^-14 times its value.
LAMINA_GPU_FUNCTION float e2m1(int bits) {
  const int half = (bits & 8) << 12 | (bits & 7) << 9;
  return gpu::widen(gpu::float16{static_cast<std::uint16_t>(half)}) * 0x1p14f;
}

// An E4M3 number. As the upper bits of a half it is 2^-8 times its value. All bits set are NaN,
// because E4M3 has no infinities.
LAMINA_GPU_FUNCTION float e4m3(int bits) {
  const bool is_nan = (bits & 127) == 127;
  const int half = (bits & 128) << 8 | (is_nan ? 0x7e00 : (bits & 127) << 7);
  return gpu::widen(gpu::float16{static_cast<std::uint16_t>(half)}) * 0x1p8f;
}

// Rounds to the bits of an E4M3 number, as formats/e4m3_bits.h: ties to even, magnitudes above 448
// become 448. REQUIRES: not NaN.
LAMINA_GPU_FUNCTION std::uint8_t e4m3_bits(float x) {
  constexpr float kShift = 0x1.8p23f;  // leaves an integer in the low bits of a sum
  const std::uint32_t bits = bits_of_float(x), magnitude = bits & 0x7fffffff;
  const std::uint32_t small = bits_of_float(float_of_bits(magnitude) * 512 + kShift) & 0x7f;
  const std::uint32_t large = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120u << 3);
  const std::uint32_t number = magnitude < 0x3c800000 ? small : large < 126 ? large : 126;
  return static_cast<std::uint8_t>((bits >> 24 & 128) | number);
}

}  // namespace lamina::cuda::stored
