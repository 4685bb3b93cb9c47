#include "support/amx_arithmetic.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lamina::testing {
namespace {

float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// Returns the exact sum, whose last bit is set if bits were lost: rounding it again to fewer bits
// gives the result of a single rounding.
double sum_to_odd(double a, double b) {
  const double sum = a + b, part = sum - a;
  const double error = (a - (sum - part)) + (b - part);  // Knuth's TwoSum: exact
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error == 0 || (bits & 1) == 1) return sum;
  return std::bit_cast<double>(std::signbit(error) == std::signbit(sum) ? bits + 1 : bits - 1);
}

// Rounds to the 24 bits of f32, with any exponent.
double rounded_to_24_bits(double x) {
  constexpr std::uint64_t kDropped = (std::uint64_t{1} << 29) - 1, kHalf = std::uint64_t{1} << 28;
  auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t rest = bits & kDropped;
  bits -= rest;
  const bool is_odd = (bits & (kDropped + 1)) != 0;
  if (rest > kHalf || (rest == kHalf && is_odd)) bits += kDropped + 1;
  return std::bit_cast<double>(bits);
}

float amx_add(float a, float b) { return amx_multiply_add(a, 1, b); }

float bf16_at(const std::uint8_t* row, int i) {
  std::uint16_t half;
  std::memcpy(&half, row + 2 * i, sizeof half);
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

template <typename T>
T word_at(const std::uint8_t* row, int i) {
  T word;
  std::memcpy(&word, row + 4 * i, sizeof word);
  return word;
}
template <typename T>
void set_word(std::uint8_t* row, int i, T word) {
  std::memcpy(row + 4 * i, &word, sizeof word);
}

int number(std::uint8_t byte, bool is_signed) {
  return is_signed && byte >= 128 ? byte - 256 : byte;
}

}  // namespace

float amx_multiply_add(float a, float b, float c) {
  a = flushed(a), b = flushed(b), c = flushed(c);
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return a * b + c;
  // The product of 24 and 24 bits is exact.
  const double sum = rounded_to_24_bits(sum_to_odd(static_cast<double>(a) * b, c));
  if (std::abs(sum) < 0x1p-126) return std::copysign(0.0f, static_cast<float>(sum));
  if (std::abs(sum) > static_cast<double>(std::numeric_limits<float>::max()))
    return std::copysign(std::numeric_limits<float>::infinity(), sum > 0 ? 1.0f : -1.0f);
  return static_cast<float>(sum);
}

void amx_multiply_bf16(AmxTile& c, const AmxTile& a, const AmxTile& b) {
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < a.row_bytes / 4; ++k) {
        even = amx_multiply_add(bf16_at(a.bytes[m], 2 * k), bf16_at(b.bytes[k], 2 * n), even);
        odd = amx_multiply_add(bf16_at(a.bytes[m], 2 * k + 1), bf16_at(b.bytes[k], 2 * n + 1), odd);
      }
      set_word(c.bytes[m], n, amx_add(word_at<float>(c.bytes[m], n), amx_add(even, odd)));
    }
}

void amx_multiply_int8(AmxTile& c, const AmxTile& a, const AmxTile& b, bool signed_a,
                       bool signed_b) {
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      std::int64_t sum = word_at<std::int32_t>(c.bytes[m], n);
      for (int k = 0; k < a.row_bytes; ++k)
        sum += number(a.bytes[m][k], signed_a) * number(b.bytes[k / 4][4 * n + k % 4], signed_b);
      set_word(c.bytes[m], n, static_cast<std::uint32_t>(sum));  // modulo 2^32
    }
}

const char* amx_shapes_problem(const AmxTile& c, const AmxTile& a, const AmxTile& b) {
  if (&c == &a || &c == &b || &a == &b) return "two of the three tiles are the same";
  if (c.rows == 0 || a.rows == 0 || b.rows == 0) return "a tile has no rows";
  if (c.row_bytes % 4 != 0 || a.row_bytes % 4 != 0 || b.row_bytes % 4 != 0)
    return "a row does not consist of whole words";
  if (c.rows != a.rows) return "the result and a have different numbers of rows";
  if (c.row_bytes != b.row_bytes) return "the result and b have rows of different lengths";
  if (a.row_bytes != 4 * b.rows) return "a row of a has not as many words as b has rows";
  return nullptr;
}

}  // namespace lamina::testing
