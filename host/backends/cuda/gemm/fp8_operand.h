// Operands of products in FP8 as cuBLASLt reads them (blas/product.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/launch.h"

namespace lamina::cuda {

// Writes rows in FP8: their e4m3 numbers [rows, width], and behind them their scales.
class Fp8Operand {
 public:
  enum class Source {
    bf16_rows,  // each 128 columns become a scale and numbers, as narrow_row() rounds them
    fp8_blocks  // of formats::fp8_format(128), which keep their values
  };
  // For up to `most_rows` rows. REQUIRES: a width that is a multiple of 128.
  Fp8Operand(Context& context, Source source, std::int64_t most_rows, std::int64_t width);

  // Returns how many rows are written for `rows` rows: the last ones are zeros.
  static std::int64_t padded(std::int64_t rows);
  std::size_t bytes() const;
  void write(const KernelArgs& args, const void* x, std::int64_t rows, std::byte* to) const;
  // Returns the place of the scales of an operand that was written to `to`.
  const std::byte* scales(const std::byte* to) const { return to + numbers_bytes_; }

 private:
  Function function_;
  std::int64_t width_;
  std::size_t numbers_bytes_, scales_bytes_;
};

}  // namespace lamina::cuda
