// Rows of activations in the forms that products with stored matrices read.
//
//   PreparedRows rows(k);
//   rows.prepare(x, ldx, m, workspace);   // workspace: rows.bytes(m), 64-byte aligned
//
// For blocks of integers: int8. Each 32 neighbours of a row share a scale: the largest magnitude
// divided by 127, in f32. A code is the value times 127 / largest magnitude, both operations in
// f32, rounded to the nearest integer, ties to even. Blocks below 2^-100 become zeros; the scale of
// a block with an infinity or a NaN is NaN. So a row depends on no other row (docs/numerics.md).
//
// For blocks of FP8: the values themselves, times a power of two for the row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/round_up.h"

namespace lamina::cpu {

inline constexpr int kActivationBlock = 32;  // values that share a scale

// 64 neighbours in the form that kernels read. Lane i has values 4 i to 4 i + 3.
struct alignas(64) QuantisedStep {
  static constexpr int kValues = 64, kLanes = 16;
  std::int8_t codes[kValues];
  float scales[kLanes];       // of the lane's block
  std::int32_t sums[kLanes];  // of the lane's codes
};

// 128 neighbours for blocks of 32 whose halves are the low and the high nibbles of bytes: codes[h]
// has half h of four blocks. Lane i has eight values of block i / 4.
struct alignas(64) QuantisedHalves {
  static constexpr int kValues = 128, kLanes = 16;
  std::int8_t codes[2][64];
  float scales[kLanes];
  std::int32_t sums[kLanes];
};

// 256 neighbours for blocks whose parts of 32 share bytes in pairs: codes[2 i] has parts 4 i and
// 4 i + 2, codes[2 i + 1] has parts 4 i + 1 and 4 i + 3.
struct alignas(64) QuantisedParts {
  static constexpr int kValues = 256, kParts = 8;
  std::int8_t codes[4][64];
  float scales[kParts];
  float sums[kParts];  // of the codes, times the scale
};

// 64 neighbours as floats: lane i of x[j] is value 4 i + j, times 2^kShift or less, see RowEnd.
// Kernels multiply them with FP8 values times 2^-kShift, which need no conversion.
struct alignas(64) FloatStep {
  static constexpr int kValues = 64, kLanes = 16, kShift = 120;
  float x[4][kLanes];
};
// 64 neighbours in bf16: numbers 0 to 7 of each 16, then numbers 8 to 15, as bytes are unpacked.
struct alignas(64) Bf16Step {
  static constexpr int kValues = 64;
  std::uint16_t x[2][32];
};
// The step after the last one of a row of floats or of bf16.
struct RowEnd {
  // The factor of the products: 1 unless the row has values so large that they have a smaller
  // factor.
  float scale;
};

// A form of rows.
struct RowForm {
  std::int64_t step_values, step_bytes;
  std::int64_t end_steps;  // after the steps that have values
  // Prepares a row of `width` bf16 values. Missing values of the last step are zeros.
  void (*prepare)(const std::uint16_t* x, std::int64_t width, void* out);

  std::int64_t steps(std::int64_t width) const { return divide_up(width, step_values) + end_steps; }
};

class PreparedRows {
 public:
  // Rows of `width` values, as QuantisedStep or in another form of best_isa().
  explicit PreparedRows(std::int64_t width);
  PreparedRows(std::int64_t width, const RowForm& form) : width_(width), form_(&form) {}
  std::int64_t steps() const { return form_->steps(width_); }
  const RowForm& form() const { return *form_; }
  std::size_t bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * steps() * form_->step_bytes);
  }
  // Prepares `rows` rows of bf16 values that are `ldx` elements apart, with all threads.
  void prepare(const void* x, std::int64_t ldx, std::int64_t rows, std::byte* out) const;

 private:
  std::int64_t width_;
  const RowForm* form_;
};

}  // namespace lamina::cpu
