// Names of map instructions, and construction of programs.
#include "runtime/map/program.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"

namespace lamina {
namespace {

struct OpRow {
  MapOp op;
  std::string_view name;
  int num_sources;
};

constexpr OpRow kOps[] = {
    {MapOp::constant, "constant", 0},
    {MapOp::iota, "iota", 0},
    {MapOp::cast, "cast", 1},
#define LAMINA_MAP_FUNCTION(name, f32, f64) {MapOp::name, #name, 1},
#include "runtime/map/functions.def"
    {MapOp::add_imm, "add_imm", 1},
    {MapOp::mul_imm, "mul_imm", 1},
    {MapOp::add, "add", 2},
    {MapOp::sub, "sub", 2},
    {MapOp::mul, "mul", 2},
    {MapOp::div, "div", 2},
    {MapOp::max, "max", 2},
    {MapOp::min, "min", 2},
    {MapOp::floordiv, "floordiv", 2},
    {MapOp::bit_and, "bit_and", 2},
    {MapOp::bit_or, "bit_or", 2},
    {MapOp::bit_xor, "bit_xor", 2},
    {MapOp::shift_left, "shift_left", 2},
    {MapOp::shift_right, "shift_right", 2},
    {MapOp::pow, "pow", 2},
    {MapOp::lt, "lt", 2},
    {MapOp::eq, "eq", 2},
    {MapOp::select, "select", 3},
};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < std::size(kOps); ++i)
    if (static_cast<std::size_t>(kOps[i].op) != i) return false;
  return true;
}
static_assert(rows_are_in_order());
static_assert(std::size(kOps) == static_cast<std::size_t>(MapOp::select) + 1);

MapStrides padded(std::initializer_list<std::int64_t> strides) {
  LAMINA_ASSERT(strides.size() <= kMaxDims);
  MapStrides all = {};
  std::copy(strides.begin(), strides.end(), all.begin());
  return all;
}

}  // namespace

std::string_view name(MapOp op) { return kOps[static_cast<std::size_t>(op)].name; }
int num_sources(MapOp op) { return kOps[static_cast<std::size_t>(op)].num_sources; }

std::optional<MapKind> map_kind(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return MapKind::f32;
    case DType::f64:
      return MapKind::f64;
    case DType::i32:
    case DType::u8:
    case DType::i8:
    case DType::u16:
    case DType::i16:
    case DType::boolean:
      return MapKind::i32;
    case DType::i64:
    case DType::u32:
      return MapKind::i64;
    default:
      return std::nullopt;
  }
}

int MapProgram::input(DType dtype, std::initializer_list<std::int64_t> strides) {
  LAMINA_ASSERT(instructions.empty());
  inputs.push_back({dtype, padded(strides)});
  return static_cast<int>(inputs.size()) - 1;
}

int MapProgram::instruction(MapInstruction added) {
  added.dst = static_cast<int>(inputs.size() + instructions.size());
  instructions.push_back(added);
  return added.dst;
}

int MapProgram::unary(MapOp op, int a, DType dtype, double value, std::int64_t integer) {
  return instruction(
      {.op = op, .dtype = dtype, .dst = 0, .src = {a}, .value = value, .integer = integer});
}

int MapProgram::binary(MapOp op, int a, int b, DType dtype) {
  return instruction({.op = op, .dtype = dtype, .dst = 0, .src = {a, b}});
}

void MapProgram::output(int reg, DType dtype, std::initializer_list<std::int64_t> strides) {
  outputs.push_back({reg, dtype, padded(strides)});
}

MapStrides contiguous_strides(const Shape& dims) {
  MapStrides strides = {};
  std::int64_t stride = 1;
  for (int d = dims.ndim() - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = stride;
    stride *= dims[d];
  }
  return strides;
}

}  // namespace lamina
