// Maps: straight-line programs of elementwise instructions over an N-d index space. One map runs a
// single op or a whole fused chain in one pass over memory, and gives the same bits either way,
// because every instruction's result is rounded to its own dtype. Backends compile or interpret
// them.
//
//   MapProgram p;                                 // y = silu(gate) * up, bf16
//   p.dims = {rows, width};
//   int gate = p.input(DType::bf16, {width, 1});  // registers hold what was loaded or computed
//   int up = p.input(DType::bf16, {width, 1});
//   int act = p.unary(MapOp::silu, gate, DType::bf16);
//   p.output(p.binary(MapOp::mul, act, up, DType::bf16), DType::bf16, {width, 1});
//
// Arithmetic is in f32 for results in f32, bf16 and f16, in f64 for f64, in i32 for i32, the
// narrower integers and bool, and in i64 (wrapping) for i64 and u32. Operands of an instruction
// must be computed in the same type as its result (operands of a comparison: as each other); cast
// converts.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace lamina {

enum class MapOp : std::uint8_t {
  // Sources of values: `value` (floating results) or `integer`; the index along dim `integer`.
  constant,
  iota,
  // One source. cast to an integer truncates, saturates, and takes NaN to 0; to bool it is x != 0.
  cast,
#define LAMINA_MAP_FUNCTION(name, f32, f64) name,
#include "runtime/map/functions.def"
  // One source and an immediate: `value`, or `integer` if the result is an integer.
  add_imm,
  mul_imm,
  // Two sources. max and min return NaN if either is NaN. floordiv and the instructions after it
  // are for integers. floordiv rounds to -infinity, and x / 0 is 0; shifts are by b modulo the
  // number of bits. pow is for floating numbers.
  add,
  sub,
  mul,
  div,
  max,
  min,
  floordiv,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  pow,
  // Two sources of one kind -> bool.
  lt,
  eq,
  // select(c, a, b) = c ? a : b.
  select,
};

std::string_view name(MapOp op);
int num_sources(MapOp op);

constexpr bool is_comparison(MapOp op) { return op == MapOp::lt || op == MapOp::eq; }
// True if results are among the operands (or their negatives), so that they need no rounding.
constexpr bool keeps_numbers(MapOp op) {
  return op == MapOp::neg || op == MapOp::abs || op == MapOp::relu || op == MapOp::max ||
         op == MapOp::min || op == MapOp::select || op == MapOp::cast;
}

// The types of arithmetic.
enum class MapKind : std::uint8_t { f32, f64, i32, i64 };

// Returns the type of arithmetic on numbers of a dtype; none if maps do not support it.
std::optional<MapKind> map_kind(DType dtype);

using MapStrides = std::array<std::int64_t, kMaxDims>;

struct MapInput {
  DType dtype;
  MapStrides strides;  // in elements, one per dim; 0 repeats the element
};

struct MapInstruction {
  MapOp op;
  DType dtype;  // of the result
  int dst;      // register; may be written more than once
  std::array<int, 3> src = {};
  double value = 0;
  std::int64_t integer = 0;
};

struct MapOutput {
  int reg;      // its value after the last instruction
  DType dtype;  // if it is not the register's, the value is cast
  MapStrides strides;
};

// Registers 0 .. inputs.size() - 1 hold the inputs; instructions may use any number of others.
struct MapProgram {
  Shape dims;
  std::vector<MapInput> inputs;
  std::vector<MapInstruction> instructions;
  std::vector<MapOutput> outputs;

  // Each function adds one entry and returns its register. Call input() before the others.
  int input(DType dtype, std::initializer_list<std::int64_t> strides);
  int instruction(MapInstruction instruction);  // sets dst
  int unary(MapOp op, int a, DType dtype, double value = 0, std::int64_t integer = 0);
  int binary(MapOp op, int a, int b, DType dtype);
  void output(int reg, DType dtype, std::initializer_list<std::int64_t> strides);
};

// Returns the row-major strides of contiguous data of this shape.
MapStrides contiguous_strides(const Shape& dims);

}  // namespace lamina
