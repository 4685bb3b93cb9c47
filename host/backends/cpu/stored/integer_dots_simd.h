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

struct IntegerDotFunctions {
  struct Format {
    std::string_view name;  // of the BlockFormat
    // `x` consists of quantised rows in a form, `w` of rows of blocks; `ldx`, `ldw` and `bf16_in`
    // are not used.
    RowsFunction run;
    const RowForm* form;
  };
  const Format* formats;
  std::size_t num_formats;
  std::string_view name;  // of the kernels, for `lamina explain`
  const RowForm& steps;   // QuantisedStep

  static const IntegerDotFunctions avx512, avx2, avx2_vnni, portable;
  // avx2_vnni with an instruction of AVX-512 in place of AVX-VNNI's: tests define it.
  static const IntegerDotFunctions avx2_vnni_of_avx512;
};

// Returns the entry of best_isa() for products of rows of `in` with a matrix in a format. Null
// if they are not products of integers: `in` is not bf16, the matrix is plain (a null format), or
// its values are not integers times scales.
const IntegerDotFunctions::Format* find_integer_dots(const formats::BlockFormat* format, DType in);
std::string_view integer_dots_name();

}  // namespace lamina::cpu
