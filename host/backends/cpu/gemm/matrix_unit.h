// The matrix unit, which multiplies tiles of bf16 and int8 as Intel's AMX defines it: the machine's
// own, or the same results by plain C++ for tests on other machines.
//
// A unit is a type with static functions, for tiles 0 to 7:
//   configure(shapes)                    sets the shapes of all tiles, and all values to 0
//   release()                            ends the use of tiles
//   zero<t>(), load<t>(p, step), store<t>(p, step)     rows are `step` bytes apart in memory
//   load_past_l1<t>(p, step)             as load, for numbers that need not stay in L1
//   multiply_bf16<c, a, b>()             c[f32] += a b, pairs of bf16
//   multiply_int8<c, a, b, Signs::xy>()  c[i32] += a b, groups of four; x, y: signs of a, b
// A row of a tile has up to 64 bytes. Row p of b contains step p of the sum: the pair (or four) of
// each column. See matrix_units.h for the results.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lamina::cpu {

// Steps of k in one product of bf16. Sums are divided into pieces of this length, from 0 on.
inline constexpr std::int64_t kUnitDepth = 32;

struct TileShapes {
  std::array<std::uint8_t, 8> rows = {};  // up to 16; 0: the tile is not used
  std::array<std::uint8_t, 8> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
};

// The signs of the int8 numbers in a and b: s signed, u unsigned.
enum class Signs { ss, su, us, uu };

// onednn: products of many rows in bf16 by oneDNN, others as for none (adr/0048).
enum class MatrixUnit { none, amx, emulated, onednn };

// Returns the unit for products in bf16 and int8: the value of LAMINA_CPU_TILES (none, amx,
// emulated, onednn), by default amx on machines with it (has_matrix_unit()), else none. UserError
// (usage) for another value, for amx on a machine without it, and for onednn without its library.
// [any thread]
MatrixUnit matrix_unit();

// True if products use tiles of this unit: amx or emulated.
inline bool has_tiles(MatrixUnit unit) {
  return unit == MatrixUnit::amx || unit == MatrixUnit::emulated;
}

// For tests: matrix_unit() returns `unit` during the life of the object. REQUIRES: not amx without
// has_matrix_unit() or an emulator of AMX (tests/support/amx_emulator.h). Earlier plans keep their
// kernels. [one thread, no nesting]
class ScopedMatrixUnit {
 public:
  explicit ScopedMatrixUnit(MatrixUnit unit);
  ~ScopedMatrixUnit();
  ScopedMatrixUnit(const ScopedMatrixUnit&) = delete;
  ScopedMatrixUnit& operator=(const ScopedMatrixUnit&) = delete;
};

}  // namespace lamina::cpu
