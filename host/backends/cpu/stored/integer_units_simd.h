// Products of many quantised rows with rows that are stored in blocks of integers by a unit of
// tiles (gemm/tile_unit.h), with the bits and the panels of integer_tiles_simd.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/cpu/stored/integer_tiles_simd.h"

namespace lamina::cpu {

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

  // Only avx512 has functions, as IntegerTileFunctions.
  static const IntegerUnitFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
