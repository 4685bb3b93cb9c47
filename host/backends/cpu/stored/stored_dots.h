// Products of few rows with matrices that are stored in blocks: the functions of one instruction
// set.
#pragma once

#include <cstddef>
#include <string_view>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

struct StoredDotFunctions {
  struct Format {
    std::string_view name;  // of the BlockFormat
    // `x` consists of prepared rows in a form, `w` of rows of blocks; `ldx`, `ldw` and `bf16_in`
    // are not used.
    RowsFunction run;
    const RowForm* form;
    // The values are integers times scales. Then many rows are multiplied so, too (integer_gemm.h);
    // else rows are widened for them.
    bool integers;
    std::string_view kernel;  // the kernel's name, for `lamina explain`
  };
  const Format* formats;
  std::size_t num_formats;
  const RowForm& steps;  // QuantisedStep
  // Formats that products of bf16 multiply, for avx512_bf16 with byte tables only.
  const Format* bf16_formats = nullptr;
  std::size_t num_bf16_formats = 0;

  static const StoredDotFunctions avx512, avx2, avx2_vnni, portable;
  // avx2_vnni with an instruction of AVX-512 in place of AVX-VNNI's: tests define it.
  static const StoredDotFunctions avx2_vnni_of_avx512;
};

// Returns the entry of best_isa() for products of rows of `in` with a matrix in a format. Null if
// rows of it are widened first: `in` is not bf16, the matrix is plain (a null format), or the
// machine multiplies bf16 faster than the format's values.
const StoredDotFunctions::Format* find_stored_dots(const formats::BlockFormat* format, DType in);

}  // namespace lamina::cpu
