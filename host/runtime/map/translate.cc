#include "runtime/map/translate.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/op_code.h"
#include "runtime/kernel_checks.h"

namespace lamina {
namespace {

// Ops that are one instruction without attributes.
const std::unordered_map<std::string_view, MapOp>& simple_ops() {
  static const std::unordered_map<std::string_view, MapOp> table = {
      {"add", MapOp::add},
      {"sub", MapOp::sub},
      {"mul", MapOp::mul},
      {"div", MapOp::div},
      {"maximum", MapOp::max},
      {"minimum", MapOp::min},
      {"less", MapOp::lt},
      {"equal", MapOp::eq},
      {"select", MapOp::select},
      {"cast", MapOp::cast},
      {"pow", MapOp::pow},
      {"bit_and", MapOp::bit_and},
      {"bit_or", MapOp::bit_or},
      {"bit_xor", MapOp::bit_xor},
      {"shift_left", MapOp::shift_left},
      {"shift_right", MapOp::shift_right},
#define LAMINA_MAP_FUNCTION(name, f32, f64) {#name, MapOp::name},
#include "runtime/map/functions.def"
  };
  return table;
}

// Ops that are one instruction with the number in their attribute "by".
const std::unordered_map<std::string_view, MapOp>& immediate_ops() {
  static const std::unordered_map<std::string_view, MapOp> table = {
      {"scale", MapOp::mul_imm},
      {"shift", MapOp::add_imm},
  };
  return table;
}

// Returns the strides of a value of `shape` that is broadcast to `dims`.
MapStrides broadcast_strides(const Shape& shape, const Shape& dims) {
  MapStrides strides{};
  std::int64_t stride = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    const int dim = i + dims.ndim() - shape.ndim();
    strides[static_cast<std::size_t>(dim)] = shape[i] == 1 ? 0 : stride;
    stride *= shape[i];
  }
  return strides;
}

// Builds the program op by op; operands are registers.
class MapTranslation {
 public:
  explicit MapTranslation(const Shape& dims) { program_.dims = dims; }

  int input(const Type& type) {
    program_.inputs.push_back({type.dtype, broadcast_strides(type.shape, program_.dims)});
    return static_cast<int>(program_.inputs.size()) - 1;
  }

  int node(const Call& c, const Type& out, const std::vector<int>& src) {
    if (const auto found = immediate_ops().find(c.op().name); found != immediate_ops().end())
      return immediate(found->second, src[0], out.dtype, c.f("by"));
    switch (c.op().code) {
      case OpCode::constant:
        return constant(out.dtype, c.f("value"));
      case OpCode::iota:
        return iota(out, counted_dim(c.i("dim"), out.ndim()));
      case OpCode::broadcast:
        return src[0];
      default:
        return simple(c.op(), out.dtype, src);
    }
  }

  void output(int reg, const Type& type) {
    program_.outputs.push_back({reg, type.dtype, broadcast_strides(type.shape, program_.dims)});
  }

  MapProgram take() { return std::move(program_); }

 private:
  int simple(const Op& op, DType dtype, const std::vector<int>& src) {
    MapInstruction instruction{.op = simple_ops().at(op.name), .dtype = dtype, .dst = 0};
    if (instruction.op == MapOp::div && !is_floating(dtype)) instruction.op = MapOp::floordiv;
    // A product wraps to narrow types; the negative of a number is taken to be one of its type.
    if (instruction.op == MapOp::neg && !is_floating(dtype))
      return immediate(MapOp::mul_imm, src[0], dtype, -1);
    for (std::size_t i = 0; i < src.size(); ++i) instruction.src[i] = src[i];
    return program_.instruction(instruction);
  }

  int constant(DType dtype, double value) {
    return program_.instruction({.op = MapOp::constant,
                                 .dtype = dtype,
                                 .dst = 0,
                                 .value = value,
                                 .integer = integer(dtype, value)});
  }

  int immediate(MapOp op, int src, DType dtype, double value) {
    return program_.unary(op, src, dtype, value, integer(dtype, value));
  }

  // Returns `value` in an integer type; the ops refuse values that do not fit.
  static std::int64_t integer(DType dtype, double value) {
    if (dtype == DType::boolean) return value != 0;
    return is_floating(dtype) ? 0 : static_cast<std::int64_t>(value);
  }

  // Maps count in four types; other types are cast from them.
  int iota(const Type& out, int dim) {
    DType counted = out.dtype;
    if (is_floating(counted) && counted != DType::f64) counted = DType::f32;
    if (!is_floating(counted) && counted != DType::i64) counted = DType::i32;
    const int reg = program_.instruction(
        {.op = MapOp::iota, .dtype = counted, .dst = 0, .integer = std::int64_t{dim}});
    return counted == out.dtype ? reg : program_.unary(MapOp::cast, reg, out.dtype);
  }

  MapProgram program_;
};

MapProgram single_map(const NodeView& n) {
  MapTranslation map(n.out_type().shape);
  std::vector<int> src;
  for (int i = 0; i < n.num_inputs(); ++i) src.push_back(map.input(n.type(i)));
  map.output(map.node(n, n.out_type(), src), n.out_type());
  return map.take();
}

MapProgram chain_map(const Graph& body, const Shape& dims) {
  MapTranslation map(dims);
  std::vector<int> registers(body.values().size(), -1);
  for (const GraphInput& input : body.inputs())
    registers[input.value] = map.input(body.type(input.value));
  for (const Node& node : body.nodes()) {
    std::vector<const Type*> types;
    std::vector<int> src;
    for (ValueId v : node.inputs) types.push_back(&body.type(v)), src.push_back(registers[v]);
    const ValueId result = node.outputs[0];
    registers[result] =
        map.node(Call(*node.op, types, node.attrs, node.origin.get()), body.type(result), src);
  }
  for (const GraphOutput& output : body.outputs())
    map.output(registers[output.value], body.type(output.value));
  return map.take();
}

// The ops of a chain are in its body.
bool is_chain(const NodeView& n) { return n.op().attr_index("body") >= 0; }

}  // namespace

Verdict map_supports(const NodeView& n) {
  auto refuse = [](const Type& type) {
    return Verdict::no("maps do not compute in " + std::string(name(type.dtype)));
  };
  for (int i = 0; i < n.num_inputs(); ++i)
    if (!map_kind(n.type(i).dtype)) return refuse(n.type(i));
  for (int i = 0; i < n.num_outputs(); ++i)
    if (!map_kind(n.out_type(i).dtype)) return refuse(n.out_type(i));
  if (!is_chain(n)) {
    if (n.op().def->lower && !simple_ops().contains(n.op().name))
      return Verdict::no("maps have no instruction for it");
    return Verdict::yes();
  }
  for (const Value& value : n.body("body")->values())
    if (!map_kind(value.type.dtype)) return refuse(value.type);
  return Verdict::yes();
}

MapProgram map_program(const NodeView& n) {
  return is_chain(n) ? chain_map(*n.body("body"), n.out_type().shape) : single_map(n);
}

}  // namespace lamina
