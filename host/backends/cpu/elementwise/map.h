// Maps: straight-line programs of elementwise instructions over an N-d index space. One map runs a
// single op or a whole fused chain in one pass over memory, and gives the same bits either way,
// because every instruction's result is rounded to its own dtype.
//
//   MapProgram p;                                 // y = silu(gate) * up, bf16
//   p.dims = {rows, width};
//   int gate = p.input(DType::bf16, {width, 1});  // registers hold what was loaded or computed
//   int up = p.input(DType::bf16, {width, 1});
//   int act = p.unary(MapOp::silu, gate, DType::bf16);
//   p.output(p.binary(MapOp::mul, act, up, DType::bf16), DType::bf16, {width, 1});
//   MapPlan plan(p);
//   plan.run({gate_data, up_data}, {y_data});
//
// Arithmetic is in f32 for results in f32, bf16 and f16, in f64 for f64, in i32 for i32, the
// narrower integers and bool, and in i64 (wrapping) for i64 and u32. Operands of an instruction
// must be computed in the same type as its result (operands of a comparison: as each other); cast
// converts.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace lamina::cpu {

enum class MapOp : std::uint8_t {
  // Sources of values: `value` (floating results) or `integer`; the index along dim `integer`.
  constant,
  iota,
  // One source. cast to an integer truncates, saturates, and takes NaN to 0; to bool it is x != 0.
  cast,
#define LAMINA_MAP_FUNCTION(name, f32, f64) name,
#include "backends/cpu/elementwise/functions.def"
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

struct MapInput {
  DType dtype;
  std::array<std::int64_t, kMaxDims> strides;  // in elements, one per dim; 0 repeats the element
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
  std::array<std::int64_t, kMaxDims> strides;
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
std::array<std::int64_t, kMaxDims> contiguous_strides(const Shape& dims);

struct MapCompiled;

// A program prepared to run with best_isa(). Immutable.
class MapPlan {
 public:
  // Throws InternalError for a program that breaks the rules above.
  explicit MapPlan(const MapProgram& program);
  ~MapPlan();
  MapPlan(MapPlan&&) noexcept;
  MapPlan& operator=(MapPlan&&) noexcept;

  // Pointers in the order of the program's inputs and outputs. An output may be exactly an input
  // (same strides, same dtype); otherwise they must not overlap. Allocates nothing. [any thread]
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) const;
  void run(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs) const {
    run(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
  }

 private:
  std::unique_ptr<const MapCompiled> compiled_;
};

}  // namespace lamina::cpu
