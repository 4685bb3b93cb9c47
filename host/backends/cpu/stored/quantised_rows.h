// Rows of activations in int8, for products with matrices that are stored in blocks of integers.
//
//   QuantisedRows rows(k);
//   rows.quantise(x, ldx, m, workspace);   // workspace: rows.bytes(m), 64-byte aligned
//
// Each 32 neighbours of a row share a scale: the largest magnitude divided by 127, in f32. A code
// is the value times 127 / largest magnitude, both operations in f32, rounded to the nearest
// integer, ties to even. Blocks below 2^-100 become zeros; the scale of a block with an infinity or
// a NaN is NaN. So a row depends on no other row (docs/numerics.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::cpu {

inline constexpr int kActivationBlock = 32;  // values that share a scale

// 64 neighbours in the form that kernels read. Lane i has values 4 i to 4 i + 3.
struct alignas(64) QuantisedStep {
  static constexpr int kValues = 64, kLanes = 16;
  std::int8_t codes[kValues];
  float scales[kLanes];       // of the lane's block
  std::int32_t sums[kLanes];  // of the lane's codes
};

class QuantisedRows {
 public:
  // Rows of `width` values; missing values of the last step are zeros.
  explicit QuantisedRows(std::int64_t width) : width_(width) {}
  std::int64_t steps() const {
    return (width_ + QuantisedStep::kValues - 1) / QuantisedStep::kValues;
  }
  std::size_t bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * steps()) * sizeof(QuantisedStep);
  }
  // Quantises `rows` rows of bf16 values that are `ldx` elements apart, with all threads.
  void quantise(const void* x, std::int64_t ldx, std::int64_t rows, std::byte* out) const;

 private:
  std::int64_t width_;
};

}  // namespace lamina::cpu
