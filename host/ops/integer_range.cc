#include "ops/integer_range.h"

#include <algorithm>
#include <initializer_list>

#include "ops/op_code.h"

namespace lamina::ops {
namespace {

using MaybeRange = std::optional<IntegerRange>;

IntegerRange of_corners(std::initializer_list<double> corners) {
  return {std::min(corners), std::max(corners)};
}

double number(const AttrValue& attr) {
  if (const auto* i = std::get_if<std::int64_t>(&attr)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&attr)) return *d;
  return 0;
}

MaybeRange of_constant(const Graph& graph, const Node& node) {
  if (node.op->code == OpCode::iota) {
    std::int64_t longest = 1;
    for (const std::int64_t size : graph.type(node.outputs[0]).shape.dims())
      longest = std::max(longest, size);
    return IntegerRange{0, static_cast<double>(longest - 1)};
  }
  if (node.op->code != OpCode::constant) return {};
  const int value = node.op->attr_index("value");
  const double v = number(node.attrs[static_cast<std::size_t>(value)]);
  return IntegerRange{v, v};
}

MaybeRange of_one(const Node& node, const IntegerRange& x) {
  if (node.op->def->layout_only || node.op->def->view || node.op->def->facts.moves_data) return x;
  switch (node.op->code) {
    case OpCode::neg:
      return IntegerRange{-x.most, -x.least};
    case OpCode::abs:
      return IntegerRange{0, std::max(-x.least, x.most)};
    case OpCode::square:
      return of_corners({0, x.least * x.least, x.most * x.most});
    case OpCode::scale: {
      const double by = number(node.attrs[0]);
      return of_corners({x.least * by, x.most * by});
    }
    case OpCode::shift: {
      const double by = number(node.attrs[0]);
      return IntegerRange{x.least + by, x.most + by};
    }
    default:
      return {};
  }
}

MaybeRange of_two(const Node& node, const IntegerRange& a, const IntegerRange& b) {
  switch (node.op->code) {
    case OpCode::add:
      return IntegerRange{a.least + b.least, a.most + b.most};
    case OpCode::sub:
      return IntegerRange{a.least - b.most, a.most - b.least};
    case OpCode::mul:
      return of_corners({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
    case OpCode::minimum:
      return IntegerRange{std::min(a.least, b.least), std::min(a.most, b.most)};
    case OpCode::maximum:
      return IntegerRange{std::max(a.least, b.least), std::max(a.most, b.most)};
    case OpCode::div:
      if (b.least < 1) return {};
      return IntegerRange{std::min(a.least, 0.0), std::max(a.most, 0.0)};
    case OpCode::remainder:
      if (b.least < 1) return {};
      return IntegerRange{0, b.most - 1};
    default:
      return {};
  }
}

}  // namespace

std::optional<IntegerRange> range_of_result(const Graph& graph, const Node& node,
                                            std::span<const IntegerRange> inputs) {
  if (inputs.empty()) return of_constant(graph, node);
  if (inputs.size() == 1) return of_one(node, inputs[0]);
  return inputs.size() == 2 ? of_two(node, inputs[0], inputs[1]) : std::nullopt;
}

}  // namespace lamina::ops
