// Products of quantised rows with matrices that are stored in blocks of integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// Makes the product of a spec whose defaults are filled in, for the threads of the pool. Null if it
// is not a product of integers (stored_dots.h).
std::unique_ptr<Gemm> make_integer_gemm(const GemmSpec& spec);

// Makes the products of specs that differ in n, bias and the format of B. A is quantised once; each
// result has the bits of its single product; operands have no addend. Null if one of the specs is
// not a product by tiles of integers.
std::unique_ptr<GemvGroup> make_integer_gemm_group(std::span<const GemmSpec> specs);

// ---- Many rows, tile by tile --------------------------------------------------------------------
//
// A tile is kTileRows rows of x times kTileColumns rows of w. Every output is one chain of sums
// over blocks of 32 values in order: the product of the minimum with the sum of x, if the format
// has minima; then the exact integer sum of the products, times the scale of x, times the scale of
// w. Private to integer_*.cc.

inline constexpr int kTileRows = 4, kTileColumns = 48;

// One block of 32 values of kTileRows rows of x. Words are four neighbours.
struct alignas(64) TileBlock {
  static constexpr int kWords = kActivationBlock / 4, kParts = 2;
  std::int8_t codes[kWords][kTileRows][4];
  std::int32_t init[kParts][kTileRows];  // -offset * sum of the codes of a half
  float sums[kTileRows];                 // scale * sum of the codes
  float scales[kTileRows];
};

// Rows of x as a kernel reads them: slabs of `rows` rows, each of k / 32 blocks.
struct IntegerSlabs {
  int rows;
  std::size_t block_bytes;
  // Packs one slab of quantised rows of k values, the last row repeated if there are fewer.
  // `offset`: of the format of w.
  void (*pack)(const QuantisedStep* rows, std::int64_t count, std::int64_t k, int offset,
               std::byte* slab);
};

// Computes t.m rows times t.n columns and finishes them, as TileProduct::multiply. t.a is ignored:
// `x` consists of slabs.
using IntegerMultiply = void (*)(const TileArguments& t, const std::byte* x,
                                 const std::byte* panel);

// The functions of one instruction set.
struct IntegerTileFunctions {
  struct Format {
    std::string_view name;  // of the BlockFormat
    int offset;             // of its codes, or -1: see integer_panels_simd.h
    int parts;              // of a block of 32 values, each with its own scale
    bool has_minimum;
    std::int64_t panel_bytes;  // of a panel, per block of 32 values
    // Packs `count` rows of w of k values from `w` on, at most kTileColumns, to a panel.
    void (*pack)(const std::byte* w, std::int64_t count, std::int64_t k, std::byte* panel);
    IntegerMultiply multiply;
    IntegerSlabs slabs;  // that multiply() reads
  };
  const Format* formats;  // none: many rows are multiplied as few are
  std::size_t num_formats;
  std::string_view name;  // of the kernels, for `lamina explain`

  static const IntegerTileFunctions avx512, avx2, avx2_vnni, portable;
  // avx2_vnni with an instruction of AVX-512 in place of AVX-VNNI's: tests define it.
  static const IntegerTileFunctions avx2_vnni_of_avx512;
};

// Likewise by a matrix unit (gemm/matrix_unit.h), with the same bits and panels.
struct IntegerUnitFunctions {
  struct Unit {
    IntegerMultiply multiply[2][2];  // by the parts of a block (1 or 2), and if it has a minimum
    std::string_view name;           // for `lamina explain`

    IntegerMultiply of(const IntegerTileFunctions::Format& format) const {
      return multiply[format.parts - 1][format.has_minimum];
    }
  };
  Unit emulated, amx;
  IntegerSlabs slabs;
  // Changes a panel that the format has packed to what multiply() reads: codes of formats without
  // minima are signed.
  void (*change_panel)(const IntegerTileFunctions::Format& format, std::int64_t blocks,
                       std::byte* panel);

  // Only avx512 has functions, as IntegerTileFunctions.
  static const IntegerUnitFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
