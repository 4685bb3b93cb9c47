// The functions of one instruction set for stored_rows.cc: values of blocks as f32 or bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cpu/gemm/gemv_simd.h"
#include "backends/cpu/threads/isa.h"

namespace lamina::cpu {

// Writes `count` values of whole blocks to `out`.
using WidenBlocks = void (*)(const std::byte* blocks, std::int64_t count, void* out);

struct WidenFunctions {
  struct Format {
    std::string_view name;  // of the BlockFormat
    WidenBlocks f32, bf16;
    // Likewise bf16, rounded by the machine: for avx512_bf16 only.
    WidenBlocks machine_bf16 = nullptr;
    // Multiplies one row of x, with the bits of widened rows and GemvFunctions::rows; likewise
    // machine_bf16 and rows_bf16. Null: widening rows is as fast.
    RowsFunction one_row = nullptr, machine_one_row = nullptr;
  };
  const Format* formats;
  std::size_t num_formats;
  // Rounds f32 values to bf16, for formats that are not in the list.
  void (*round)(const float* values, std::int64_t count, void* out);

  static const WidenFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
