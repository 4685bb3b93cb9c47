// Keys and values in rows of formats/row_formats.h: a scale in f32, then a byte per number, with
// the same bits as on the CPU. Device code.
#pragma once

#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/stored/numbers.h"
#include "backends/cuda/stored/params.h"

namespace lamina::cuda::stored {

inline constexpr int kRowScaleBytes = 4;

struct Int8Number {
  static constexpr float kLargest = 127;
  // Returns the number of the low byte. 0x1.0001p23 is 2^23 + 128.
  static LAMINA_GPU_FUNCTION float widen(std::uint32_t bits) {
    return float_of_bits(0x4b000000u | ((bits & 255) ^ 128)) - 0x1.0001p23f;
  }
  // Rounds to the nearest number, ties to even.
  static LAMINA_GPU_FUNCTION std::uint8_t narrow(float x) {
    constexpr float kShift = 0x1.8p23f;  // leaves an integer in the low bits of a sum
    const int number =
        static_cast<int>(bits_of_float(x + kShift)) - static_cast<int>(bits_of_float(kShift));
    return static_cast<std::uint8_t>(gpu::max(-127, gpu::min(127, number)));
  }
};

// No row contains the bits of NaN.
struct Fp8Number {
  static constexpr float kLargest = 448;
  // As the upper bits of a float, a number is 2^-120 times its value.
  static LAMINA_GPU_FUNCTION float widen(std::uint32_t bits) {
    return float_of_bits((bits & 128) << 24 | (bits & 127) << 20) * 0x1p120f;
  }
  static LAMINA_GPU_FUNCTION std::uint8_t narrow(float x) { return e4m3_bits(x); }
};

using FourBytes = gpu::Vector<std::uint8_t, 4>;

// Rows begin at multiples of 4 bytes if their width is one and the first row does.
LAMINA_GPU_FUNCTION bool has_words(gpu::Address rows, int width) {
  return width % 4 == 0 && rows.value % 4 == 0;
}

// Loads `count` bytes, up to 4; others are 0.
LAMINA_GPU_FUNCTION FourBytes load_bytes(StoredBytes row, int at, int count, bool words) {
  if (words) return gpu::load_vector<4>(row, at);
  FourBytes out{};
  for (int i = 0; i < 4 && i < count; ++i) out.values[i] = row[at + i];
  return out;
}
LAMINA_GPU_FUNCTION void store_bytes(gpu::Global<std::uint8_t> row, int at, int count, bool words,
                                     const FourBytes& bytes) {
  if (words) {
    gpu::store_vector<4>(row, at, bytes);
    return;
  }
  for (int i = 0; i < 4 && i < count; ++i) row[at + i] = bytes.values[i];
}

LAMINA_GPU_FUNCTION float row_scale(StoredBytes row, bool words) {
  const FourBytes b = load_bytes(row, 0, kRowScaleBytes, words);
  std::uint32_t bits = 0;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(b.values[i]) << 8 * i;
  return float_of_bits(bits);
}

// The values of a row in the registers of a warp: part j of a lane is 4 values from
// 4 lane() + j * 128 on. Values past the row are 0.
inline constexpr int kRowParts = 4, kRowPartValues = 4 * gpu::kWarpSize;
inline constexpr int kMostRowValues = kRowParts * kRowPartValues;
struct RowValues {
  float parts[kRowParts][4];
};
// Sets the values to value(i).
template <typename Value>
LAMINA_GPU_FUNCTION void set_row(RowValues& row, int width, Value value) {
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kRowParts; ++j) LAMINA_GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int at = j * kRowPartValues + 4 * gpu::lane() + i;
    row.parts[j][i] = at < width ? value(at) : 0.f;
  }
}

// The scale of a row and its divisor; see narrow_row() of formats/row_formats.h.
struct RowScale {
  float scale;
  bool has_numbers;  // false: all are 0
};
LAMINA_GPU_FUNCTION RowScale scale_of(const RowValues& row, float largest_number) {
  int largest = 0;  // the magnitudes of floats are ordered as their bits
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kRowParts; ++j) LAMINA_GPU_UNROLL
  for (int i = 0; i < 4; ++i)
    largest = gpu::max(largest, static_cast<int>(bits_of_float(row.parts[j][i]) & 0x7fffffffu));
  largest = gpu::warp_max(largest);
  if (largest >= 0x7f800000) return {float_of_bits(0x7fc00000u), false};
  float scale = divide(float_of_bits(static_cast<std::uint32_t>(largest)), largest_number);
  if (scale * largest_number == gpu::infinity()) scale = float_of_bits(bits_of_float(scale) - 1);
  if (scale < 0x1p-126f) return {0.f, false};
  return {scale, true};
}

// Writes a row, by one warp.
template <typename Number>
LAMINA_GPU_FUNCTION void store_row(const RowValues& row, int width, gpu::Global<std::uint8_t> to,
                                   bool words) {
  const RowScale scale = scale_of(row, Number::kLargest);
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kRowParts; ++j) {
    const int first = j * kRowPartValues + 4 * gpu::lane();
    if (first >= width) continue;
    FourBytes bytes{};
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i)
      if (scale.has_numbers) bytes.values[i] = Number::narrow(divide(row.parts[j][i], scale.scale));
    store_bytes(to, kRowScaleBytes + first, width - first, words, bytes);
  }
  if (gpu::lane() > 0) return;
  const std::uint32_t bits = bits_of_float(scale.scale);
  FourBytes bytes;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < 4; ++i) bytes.values[i] = static_cast<std::uint8_t>(bits >> 8 * i);
  store_bytes(to, 0, kRowScaleBytes, words, bytes);
}

// Writes row `index` of rows of `width` numbers.
LAMINA_GPU_FUNCTION void store_row(const RowValues& row, int width, RowKind kind, gpu::Address rows,
                                   std::int64_t index) {
  const bool words = has_words(rows, width);
  const auto to = gpu::Global<std::uint8_t>(rows) + index * (kRowScaleBytes + width);
  if (kind == RowKind::int8)
    store_row<Int8Number>(row, width, to, words);
  else
    store_row<Fp8Number>(row, width, to, words);
}

}  // namespace lamina::cuda::stored
