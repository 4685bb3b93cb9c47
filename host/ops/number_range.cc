#include "ops/number_range.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "ops/op_code.h"

namespace lamina::ops {
namespace {

using MaybeRange = std::optional<NumberRange>;

NumberRange of_corners(std::initializer_list<double> corners) {
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
    return NumberRange{0, static_cast<double>(longest - 1)};
  }
  if (node.op->code == OpCode::constant_data) {
    const int at = node.op->attr_index("values");
    const auto& values = std::get<std::vector<double>>(node.attrs[static_cast<std::size_t>(at)]);
    if (values.empty()) return {};
    const auto [least, most] = std::ranges::minmax(values);
    return NumberRange{least, most};
  }
  if (node.op->code != OpCode::constant) return {};
  const int value = node.op->attr_index("value");
  const double v = number(node.attrs[static_cast<std::size_t>(value)]);
  return NumberRange{v, v};
}

MaybeRange of_one(const Node& node, const NumberRange& x) {
  if (node.op->def->layout_only || node.op->def->view || node.op->def->facts.moves_data) return x;
  switch (node.op->code) {
    case OpCode::neg:
      return NumberRange{-x.most, -x.least};
    case OpCode::abs:
      return NumberRange{0, std::max(-x.least, x.most)};
    case OpCode::square:
      return of_corners({0, x.least * x.least, x.most * x.most});
    case OpCode::scale: {
      const double by = number(node.attrs[0]);
      return of_corners({x.least * by, x.most * by});
    }
    case OpCode::shift: {
      const double by = number(node.attrs[0]);
      return NumberRange{x.least + by, x.most + by};
    }
    default:
      return {};
  }
}

// The quotient of integers is rounded towards minus infinity.
NumberRange of_quotient(const NumberRange& a, const NumberRange& b, bool of_integers) {
  const NumberRange exact =
      of_corners({a.least / b.least, a.least / b.most, a.most / b.least, a.most / b.most});
  return of_integers ? NumberRange{std::floor(exact.least), std::floor(exact.most)} : exact;
}

MaybeRange of_two(const Node& node, const NumberRange& a, const NumberRange& b, bool of_integers) {
  switch (node.op->code) {
    case OpCode::add:
      return NumberRange{a.least + b.least, a.most + b.most};
    case OpCode::sub:
      return NumberRange{a.least - b.most, a.most - b.least};
    case OpCode::mul:
      return of_corners({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
    case OpCode::minimum:
      return NumberRange{std::min(a.least, b.least), std::min(a.most, b.most)};
    case OpCode::maximum:
      return NumberRange{std::max(a.least, b.least), std::max(a.most, b.most)};
    case OpCode::div:
      if (b.least <= 0) return {};
      return of_quotient(a, b, of_integers);
    case OpCode::remainder:
      if (b.least <= 0) return {};
      return NumberRange{0, of_integers ? b.most - 1 : b.most};
    default:
      return {};
  }
}

}  // namespace

std::optional<NumberRange> range_of_result(const Graph& graph, const Node& node,
                                           std::span<const NumberRange> inputs) {
  if (inputs.empty()) return of_constant(graph, node);
  if (inputs.size() == 1) return of_one(node, inputs[0]);
  if (inputs.size() != 2) return {};
  const bool of_integers = !is_floating(graph.type(node.outputs[0]).dtype);
  return of_two(node, inputs[0], inputs[1], of_integers);
}

}  // namespace lamina::ops
