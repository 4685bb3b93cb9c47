// Products of rows that are grouped, each group with a separate matrix: the experts of a mixture.
// Groups without rows cost nothing, and their matrices are not read.
//
//   GroupedLinear product({.rows = 8, .groups = 128, .inputs = 2048, .outputs = 768});
//   product.run(x, w, offsets, nullptr, y, workspace);
//
// Group e has the rows offsets[e] to offsets[e + 1]; offsets are limited to [0, rows] and to rising
// order. Work is divided by shapes and offsets alone, so a row's bits depend neither on other rows
// nor on the number of threads. Matrices of FP8 are the exception: few rows (of a group, and in
// all) may be rounded differently from many, as in gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/stored/stored_rows.h"
#include "core/dtype.h"

namespace lamina::cpu {

struct GroupedSpec {
  std::int64_t rows = 0, groups = 0;
  std::int64_t inputs = 0, outputs = 0;  // I and O of w[groups, O, I]
  DType dtype = DType::bf16;             // of rows and matrices: f32 or bf16
  std::optional<DType> bias;             // f32 or bf16, [groups, O]
  // The format of the matrices; null: plain. GroupedLinear multiplies them as gemv.h does,
  // GroupedLinearDx widens panels of columns to `dtype`.
  const formats::BlockFormat* stored = nullptr;
};

// y[rows, O] = x[rows, I] w[e]^T (+ bias[e]), summed in f32 and rounded once; rows of no group are
// 0. The matrices are streamed, at memory speed for few rows per group; groups of many rows use the
// matrix unit, if there is one (matrix_unit.h), with the same bits.
class GroupedLinear {
 public:
  explicit GroupedLinear(const GroupedSpec& spec);
  std::size_t workspace_bytes() const;  // 64-byte aligned
  void run(const void* x, const void* w, const std::int32_t* offsets, const void* bias, void* y,
           std::byte* workspace) const;
  std::string_view kernel() const { return kernel_; }

 private:
  void multiply(const RowsArguments& piece, std::int64_t begin, std::int64_t end, std::int64_t rows,
                std::byte* tile_scratch) const;
  void multiply_tiles(const RowsArguments& piece, std::int64_t begin, std::int64_t end,
                      std::int64_t rows, std::byte* tile_scratch) const;
  void multiply_blocks(RowsFunction function, const RowsArguments& piece, std::int64_t begin,
                       std::int64_t end, std::int64_t rows, std::int64_t row_bytes) const;
  bool reads_prepared(std::int64_t rows) const;
  std::size_t thread_bytes() const;

  GroupedSpec spec_;
  std::int64_t max_few_rows_;  // of a group, see max_rows_to_stream()
  RowsFunction function_;      // of plain or widened rows
  std::string_view kernel_;
  const StoredDotFunctions::Format* dots_ = nullptr;  // of prepared rows
  PreparedRows prepared_;
  std::size_t prepared_bytes_ = 0;
  std::optional<StoredRows> stored_;  // if matrices are widened
  std::int64_t panel_outputs_ = 0;
  std::size_t panel_bytes_ = 0;
  std::optional<TileMultiplier> tile_;  // by a matrix unit
  int num_threads_;
};

// dx[rows, I] = dy[rows, O] w[e]; rows of no group are 0.
class GroupedLinearDx {
 public:
  explicit GroupedLinearDx(const GroupedSpec& spec);
  std::size_t workspace_bytes() const;
  void run(const void* dy, const void* w, const std::int32_t* offsets, void* dx,
           std::byte* workspace) const;
  std::string_view kernel() const { return tile_.kernel(); }

 private:
  std::size_t thread_bytes() const { return tile_.scratch_bytes() + panel_bytes_; }

  GroupedSpec spec_;
  std::int64_t columns_;  // of a piece
  TileMultiplier tile_;
  std::optional<StoredRows> stored_;
  std::size_t panel_bytes_ = 0;
  int num_threads_;
};

// dw[e] = dy^T x over the rows of group e, f32[groups, O, I]; 0 for groups without rows.
class GroupedLinearDw {
 public:
  explicit GroupedLinearDw(const GroupedSpec& spec);
  std::size_t workspace_bytes() const;
  void run(const void* x, const void* dy, const std::int32_t* offsets, float* dw,
           std::byte* workspace) const;
  std::string_view kernel() const { return tile_.kernel(); }

 private:
  GroupedSpec spec_;
  TileMultiplier tile_;
  int num_threads_;
};

}  // namespace lamina::cpu
