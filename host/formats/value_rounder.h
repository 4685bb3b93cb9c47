// Rounds the values of a block one by one, for methods that change later values after each one.
//
//   const ValueRounder rounder(format);
//   const float scale = rounder.choose_scale(block);
//   codes[0] = rounder.round(scale, block[0]).code;  // ..
//   rounder.write(scale, codes, out);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/block_formats.h"

namespace lamina::formats {

class ValueRounder {
 public:
  // Returns whether each block of a format has one scale that depends on the block alone: int8,
  // int4 and mxfp4.
  static bool can_round(const BlockFormat& format);
  // REQUIRES: can_round(format).
  explicit ValueRounder(const BlockFormat& format);

  // Returns one of the scales that encode_row() may choose for a block: the one with the least sum
  // of importance * error^2. `importance`: one per value, not negative; empty: all equal, which
  // gives the scale of encode_row(). REQUIRES: finite values.
  float choose_scale(std::span<const float> block, std::span<const float> importance = {}) const;

  struct Rounded {
    std::uint8_t code;  // as in BlockCodes
    float value;        // as widened
  };
  // Rounds to nearest, ties to even.
  Rounded round(float scale, float value) const;
  // Writes a block. REQUIRES: as many codes as the block has values.
  void write(float scale, std::span<const std::uint8_t> codes, std::byte* out) const;

 private:
  int bits_;
  bool is_float_;
};

}  // namespace lamina::formats
