// Products of a few quantised rows with rows that are stored in blocks of integers, for one
// instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cpu/gemm/gemv_simd.h"
#include "backends/cpu/stored/quantised_rows.h"
#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// Computes outputs [begin, end) of every row of x, as a RowsFunction: `x` consists of rows of
// QuantisedStep, `w` of rows of blocks; `ldx`, `ldw` and `bf16_in` are not used.
using IntegerDots = RowsFunction;

struct IntegerDotFunctions {
  struct Format {
    std::string_view name;  // of the BlockFormat
    IntegerDots run;
  };
  const Format* formats;
  std::size_t num_formats;
  std::string_view name;  // of the kernels, for `lamina explain`
  // Quantises a row of `width` bf16 values.
  void (*quantise)(const std::uint16_t* x, std::int64_t width, QuantisedStep* out);

  static const IntegerDotFunctions avx512, avx2, portable;
};

// Returns the function of best_isa() for products of rows of `in` with a matrix in a format. Null
// if they are not products of integers: `in` is not bf16, the matrix is plain (a null format), or
// its values are not integers times scales.
IntegerDots find_integer_dots(const formats::BlockFormat* format, DType in);
std::string_view integer_dots_name();

}  // namespace lamina::cpu
