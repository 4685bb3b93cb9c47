// Our product of one tile, for each instruction set: bf16 by vdpbf16ps if the machine has it, else
// as f32 by FMA.
//
// After Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication": the
// columns of B are packed panel by panel, and each panel meets all rows of A while it is in the
// nearest caches. Every output is one chain of sums over k in order, so its bits do not depend on
// how [m, n] was cut into tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backends/cpu/threads/isa.h"
#include "core/dtype.h"
#include "core/round_up.h"

namespace lamina::cpu {

// Rows of A or columns of B: element k of row or column i is data[i * stride + k * k_stride], and
// one of the strides is 1.
struct TileOperand {
  const void* data;
  std::int64_t stride, k_stride;  // in elements

  // Returns the operand from row or column i and element k on.
  TileOperand from(std::int64_t i, std::int64_t k, std::int64_t element_bytes) const {
    return {static_cast<const std::byte*>(data) + (i * stride + k * k_stride) * element_bytes,
            stride, k_stride};
  }
};

// C[m,n] (+)= A[m,k] * B[k,n] (+ bias[n]), or the part of it for one block of k.
struct TileArguments {
  std::int64_t m, n, k;
  TileOperand a, b;
  const void* packed_a;  // what pack_a() made of A, which is not read then; null: A as it is
  const void* bias;      // null: none
  void* c;
  std::int64_t ldc;
  bool bf16_out, bf16_bias, accumulate;
  bool past_caches;  // C is not read soon; it is f32, and its rows are aligned to 64 bytes
  // Number of columns of B after these that the next call will read.
  std::int64_t following_columns;
  // Sums between one block of k and the next, num_sums(m, n) of them. Null: there is one block.
  float* sums;
  bool is_first, is_last;  // of the blocks
  std::byte* scratch;      // scratch_bytes(k), 64-byte aligned
};

// Number of adjacent rows in a packed A.
inline constexpr std::int64_t kPackedRows = 16;

// The division of a large product into tasks whose operands stay in caches.
struct TileDivision {
  std::int64_t max_depth = 4096;             // of a block of k
  std::int64_t max_rows = 0, max_bytes = 0;  // of A; 0: as many rows as leave work for all threads
  std::int64_t max_panels = 1;               // of B
  bool packs_a = false;                      // also where multiply() could read A as it is
};

struct TileProduct {
  void (*multiply)(const TileArguments&) = nullptr;
  // Packs A to packed_a_bytes(m, k) bytes at `packed`, 64-byte aligned. Packed rows from i on, a
  // multiple of kPackedRows, begin after packed_a_bytes(i, k).
  void (*pack_a)(const TileOperand& a, std::int64_t m, std::int64_t k, void* packed) = nullptr;
  // True if multiply() can read such an A, aligned to four bytes, without packing.
  bool (*takes_as_it_is)(const TileOperand& a, std::int64_t k) = nullptr;
  std::size_t (*packed_a_bytes)(std::int64_t m, std::int64_t k) = nullptr;
  std::size_t (*scratch_bytes)(std::int64_t k) = nullptr;
  std::int64_t panel_rows = 0, panel_columns = 0;  // that are multiplied at once
  TileDivision division = {};
  std::string_view name;  // for `lamina explain`

  std::int64_t num_sums(std::int64_t m, std::int64_t n) const {
    return round_up(m, panel_rows) * round_up(n, panel_columns);
  }
};

struct TileFunctions {
  TileProduct f32;
  TileProduct bf16;        // widened to f32
  TileProduct pairs = {};  // of bf16: for avx512_bf16 only

  static const TileFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
