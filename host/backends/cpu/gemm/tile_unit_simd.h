// Products by a unit of tiles, for one instruction set; and the best products of this machine.
#pragma once

#include "backends/cpu/gemm/gemv_simd.h"
#include "backends/cpu/gemm/tile_simd.h"
#include "backends/cpu/gemm/tile_unit.h"

namespace lamina::cpu {

struct TileUnitFunctions {
  TileProduct product;
  GemvFunctions::Named rows;  // few rows in bf16, with the bits of `product`
};

struct PlainUnitFunctions {
  TileUnitFunctions unit;

  static const PlainUnitFunctions avx512, avx2, portable;
};

// Null on CPUs other than x86-64. Machines with AMX use avx512's. The others are for tests that
// emulate AMX on older machines.
struct AmxFunctions {
  TileUnitFunctions unit;

  static const AmxFunctions avx512, avx2, portable;
};

// Returns the functions of tile_unit(), null if it has no tiles.
inline const TileUnitFunctions* tile_unit_functions() {
  switch (tile_unit()) {
    case TileUnit::none:
    case TileUnit::onednn:
      break;
    case TileUnit::amx:
      return &isa_table<AmxFunctions>().unit;
    case TileUnit::emulated:
      return &isa_table<PlainUnitFunctions>().unit;
  }
  return nullptr;
}

// Returns the product of tile_unit() and best_isa() for operands of `in`: f32 or bf16.
inline const TileProduct& best_tile_product(DType in) {
  const TileFunctions& functions = isa_table<TileFunctions>();
  if (in == DType::f32) return functions.f32;
  if (const TileUnitFunctions* unit = tile_unit_functions()) return unit->product;
  return best_isa() == Isa::avx512_bf16 ? functions.pairs : functions.bf16;
}

// Returns the function of tile_unit() and best_isa() for few rows of `in` and W stored [n, k].
inline const GemvFunctions::Named& best_rows_function(DType in) {
  const TileUnitFunctions* unit = in == DType::bf16 ? tile_unit_functions() : nullptr;
  if (unit) return unit->rows;
  const GemvFunctions& functions = isa_table<GemvFunctions>();
  return best_isa() == Isa::avx512_bf16 ? functions.rows_bf16 : functions.rows;
}

}  // namespace lamina::cpu
