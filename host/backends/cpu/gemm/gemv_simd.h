// The kernels behind gemv.h: one matrix (or a gate and up pair) and a range of its outputs.
// One version per instruction set, from gemv_kernel.h.
#pragma once

#include <cstdint>

namespace lamina::cpu {

inline constexpr std::int64_t kMaxStreamedRows = 64;

struct RowsArguments {
  std::int64_t m, k;  // m is at most kMaxStreamedRows
  const void* x;
  std::int64_t ldx;
  const void* w;
  std::int64_t ldw;
  const void* bias;    // nullptr: none
  const void* addend;  // nullptr: none
  void* out;
  std::int64_t ldo;
  const void* up;  // nullptr, or the second matrix of silu(w x) * (up x)
  std::int64_t ld_up;
  const void* up_bias;
  bool bf16_in, bf16_out, bf16_bias, bf16_up_bias;
};

// Computes outputs [begin, end) of every row of x.
using RowsFunction = void (*)(const RowsArguments&, std::int64_t begin, std::int64_t end);

// W stored [n, k].
void gemv_rows_portable(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);
void gemv_rows_avx2(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);
void gemv_rows_avx512(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);
void gemv_rows_avx512_bf16(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);

// W stored [k, n].
void gemv_columns_portable(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);
void gemv_columns_avx2(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);
void gemv_columns_avx512(const RowsArguments& arguments, std::int64_t begin, std::int64_t end);

}  // namespace lamina::cpu
