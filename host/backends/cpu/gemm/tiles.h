// Products by our own tiles: of one block of k by the functions of an instruction set or of a
// matrix unit (matrix_unit.h), of any k by TileMultiplier.
//
// After Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication": the
// columns of B are packed panel by panel, and each panel meets all rows of A while it is in the
// nearest caches. Every output is one chain of sums over k in order, so its bits do not depend on
// how [m, n] was cut into tiles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/threads/isa.h"
#include "core/dtype.h"
#include "core/round_up.h"

namespace lamina::cpu {

// ---- One block of k -----------------------------------------------------------------------------

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
  bool streams;  // C is stored past the caches; it is f32, and its rows are aligned to 64 bytes
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
  bool (*needs_no_packing)(const TileOperand& a, std::int64_t k) = nullptr;
  std::size_t (*packed_a_bytes)(std::int64_t m, std::int64_t k) = nullptr;
  std::size_t (*scratch_bytes)(std::int64_t k) = nullptr;
  std::int64_t panel_rows = 0, panel_columns = 0;  // that are multiplied at once
  TileDivision division = {};
  std::string_view name;  // for `lamina explain`

  std::int64_t num_sums(std::int64_t m, std::int64_t n) const {
    return round_up(m, panel_rows) * round_up(n, panel_columns);
  }
};

// The functions of one instruction set: bf16 by vdpbf16ps if the machine has it, else as f32 by
// FMA.
struct TileFunctions {
  TileProduct f32;
  TileProduct bf16;        // widened to f32
  TileProduct pairs = {};  // of bf16: for avx512_bf16 only

  static const TileFunctions avx512, avx2, portable;
};

// The functions of a matrix unit, for one instruction set.
struct MatrixUnitFunctions {
  TileProduct product;
  GemvFunctions::Named rows;  // few rows in bf16, with the bits of `product`
};

struct PlainUnitFunctions {
  MatrixUnitFunctions unit;

  static const PlainUnitFunctions avx512, avx2, portable;
};

// Null on CPUs other than x86-64. Machines with AMX use avx512's. The others are for tests that
// emulate AMX on older machines.
struct AmxFunctions {
  MatrixUnitFunctions unit;

  static const AmxFunctions avx512, avx2, portable;
};

// Returns the functions of matrix_unit(), null if it has no tiles.
inline const MatrixUnitFunctions* matrix_unit_functions() {
  switch (matrix_unit()) {
    case MatrixUnit::none:
    case MatrixUnit::onednn:
      break;
    case MatrixUnit::amx:
      return &isa_table<AmxFunctions>().unit;
    case MatrixUnit::emulated:
      return &isa_table<PlainUnitFunctions>().unit;
  }
  return nullptr;
}

// Returns the product of matrix_unit() and best_isa() for operands of `in`: f32 or bf16.
inline const TileProduct& best_tile_product(DType in) {
  const TileFunctions& functions = isa_table<TileFunctions>();
  if (in == DType::f32) return functions.f32;
  if (const MatrixUnitFunctions* unit = matrix_unit_functions()) return unit->product;
  return best_isa() == Isa::avx512_bf16 ? functions.pairs : functions.bf16;
}

// Returns the function of matrix_unit() and best_isa() for few rows of `in` and W stored [n, k].
inline const GemvFunctions::Named& best_rows_function(DType in) {
  const MatrixUnitFunctions* unit = in == DType::bf16 ? matrix_unit_functions() : nullptr;
  if (unit) return unit->rows;
  const GemvFunctions& functions = isa_table<GemvFunctions>();
  return best_isa() == Isa::avx512_bf16 ? functions.rows_bf16 : functions.rows;
}

// ---- Any k --------------------------------------------------------------------------------------

// The division of a sum over k: about equal blocks, of whole pieces for a matrix unit. One block
// of 0 for k = 0.
struct DepthBlocks {
  // Deep enough that sums are rarely stored, shallow enough that a panel stays in the caches.
  static constexpr std::int64_t kMaxDepth = 4096;

  explicit DepthBlocks(std::int64_t k, std::int64_t max_depth = kMaxDepth)
      : total(k),
        count(k > max_depth ? divide_up(k, max_depth) : 1),
        depth(round_up(divide_up(k, count), kUnitDepth)) {}
  std::int64_t first(std::int64_t block) const { return block * depth; }
  std::int64_t depth_of(std::int64_t block) const { return std::min(depth, total - first(block)); }

  std::int64_t total, count, depth;
};

// A product of up to max_m x max_n x max_k on the calling thread.
class TileMultiplier {
 public:
  TileMultiplier(DType in, std::int64_t max_m, std::int64_t max_n, std::int64_t max_k);
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  // Computes the product. Uses the operands, C and the options of `t`; sets its other members
  // itself. `scratch` is 64-byte aligned.
  void multiply(TileArguments t, std::byte* scratch) const;
  std::string_view kernel() const { return product_.name; }

 private:
  const TileProduct& product_;
  DType in_;
  std::size_t packed_bytes_, sums_bytes_, scratch_bytes_;
};

// Makes the product of a spec whose defaults are filled in, for the threads of the pool.
std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec);

}  // namespace lamina::cpu
