#include "formats/row_formats.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "formats/e4m3_bits.h"
#include "formats/fp8.h"

namespace lamina::formats {
namespace {

constexpr float kLargestNumbers[] = {127, 448};  // by RowNumbers

float scale_of(const std::byte* row) {
  float scale;
  std::memcpy(&scale, row, sizeof scale);
  return scale;
}

void widen_int8(const std::byte* row, int count, float* out) {
  const auto* numbers = reinterpret_cast<const std::int8_t*>(row + kRowScaleBytes);
  const float scale = scale_of(row);
  for (int i = 0; i < count; ++i) out[i] = scale * static_cast<float>(numbers[i]);
}

void widen_e4m3(const std::byte* row, int count, float* out) {
  const auto* numbers = reinterpret_cast<const std::uint8_t*>(row + kRowScaleBytes);
  const float scale = scale_of(row);
  for (int i = 0; i < count; ++i) out[i] = scale * kE4m3[numbers[i]];
}

// A format's function knows only the row, so each width has its own.
template <int kValues>
void widen_int8_row(const std::byte* row, float* out) {
  widen_int8(row, kValues, out);
}
template <int kValues>
void widen_e4m3_row(const std::byte* row, float* out) {
  widen_e4m3(row, kValues, out);
}

using Table = std::array<BlockFormat, kMaxRowValues>;

template <std::size_t... kIndex>
constexpr std::array<Table, 2> tables(std::index_sequence<kIndex...>) {
  return {Table{BlockFormat{"INT8_ROW", kNoGgufType, static_cast<int>(kIndex) + 1,
                            static_cast<int>(kIndex) + 1 + kRowScaleBytes,
                            widen_int8_row<static_cast<int>(kIndex) + 1>}...},
          Table{BlockFormat{"FP8_ROW", kNoGgufType, static_cast<int>(kIndex) + 1,
                            static_cast<int>(kIndex) + 1 + kRowScaleBytes,
                            widen_e4m3_row<static_cast<int>(kIndex) + 1>}...}};
}

constexpr std::array<Table, 2> kTables = tables(std::make_index_sequence<kMaxRowValues>());

void narrow_int8(const float* values, int count, float scale, std::byte* out) {
  for (int i = 0; i < count; ++i) {
    const std::int32_t number = nearest_integer(values[i] / scale);
    out[i] = static_cast<std::byte>(number < -127 ? -127 : number > 127 ? 127 : number);
  }
}

void narrow_e4m3(const float* values, int count, float scale, std::byte* out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<std::byte>(e4m3_bits(values[i] / scale));
}

}  // namespace

std::optional<RowNumbers> parse_row_numbers(std::string_view word) {
  if (word == "int8") return RowNumbers::int8;
  if (word == "fp8") return RowNumbers::e4m3;
  return {};
}

const BlockFormat* row_format(RowNumbers numbers, std::int64_t num_values) {
  if (num_values < 1 || num_values > kMaxRowValues) return nullptr;
  return &kTables[static_cast<std::size_t>(numbers)][static_cast<std::size_t>(num_values) - 1];
}

std::optional<RowNumbers> row_numbers(const BlockFormat& format) {
  for (const RowNumbers numbers : {RowNumbers::int8, RowNumbers::e4m3})
    if (row_format(numbers, format.num_values) == &format) return numbers;
  return {};
}

void narrow_row(const BlockFormat& format, const float* values, std::byte* row) {
  const RowNumbers numbers = *row_numbers(format);
  std::uint32_t largest = 0;  // the magnitudes of floats are ordered as their bits
  for (int i = 0; i < format.num_values; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffff;
    largest = largest > bits ? largest : bits;
  }
  const float most = kLargestNumbers[static_cast<std::size_t>(numbers)];
  float scale = std::bit_cast<float>(largest) / most;
  // A quotient that was rounded up may not be multiplied back within the range of floats.
  if (std::isinf(scale * most)) scale = std::nextafter(scale, 0.f);
  const bool is_zero = scale < std::numeric_limits<float>::min();
  const bool is_finite = largest < 0x7f800000;
  if (is_zero) scale = 0;
  if (!is_finite) scale = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(row, &scale, sizeof scale);
  std::byte* out = row + kRowScaleBytes;
  if (is_zero || !is_finite)
    std::memset(out, 0, static_cast<std::size_t>(format.num_values));
  else if (numbers == RowNumbers::int8)
    narrow_int8(values, format.num_values, scale, out);
  else
    narrow_e4m3(values, format.num_values, scale, out);
}

}  // namespace lamina::formats
