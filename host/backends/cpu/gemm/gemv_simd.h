// The functions of one instruction set for gemv.cc and grouped.cc: one matrix and a range of its
// outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cpu/threads/isa.h"

namespace lamina::cpu {

inline constexpr std::int64_t kMaxStreamedRows = 64;

struct RowsArguments {
  std::int64_t m, k;  // m is at most kMaxStreamedRows
  const void* x;
  std::int64_t ldx;
  const void* packed_x = nullptr;  // what Named::pack made of x; nullptr: each call packs itself
  const void* w;
  std::int64_t ldw;
  const void* bias;    // nullptr: none
  const void* addend;  // nullptr: none
  void* out;
  std::int64_t ldo;
  bool bf16_in, bf16_out, bf16_bias;
};

// Computes outputs [begin, end) of every row of x.
using RowsFunction = void (*)(const RowsArguments&, std::int64_t begin, std::int64_t end);

struct GemvFunctions {
  struct Named {
    RowsFunction run;
    std::string_view name;  // for `lamina explain`
    // Packs x, which all calls of a product read, into packed_bytes(m, k) bytes, 64-byte aligned.
    // Null: run() reads x.
    std::size_t (*packed_bytes)(std::int64_t m, std::int64_t k) = nullptr;
    void (*pack)(const RowsArguments&, void* packed) = nullptr;
  };
  Named rows;            // W stored [n, k]
  Named rows_bf16 = {};  // likewise, bf16 products by vdpbf16ps: for avx512_bf16 only
  Named columns;         // W stored [k, n]

  static const GemvFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
