#include "conformance/positions.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "conformance/check.h"
#include "ops/custom.h"
#include "ops/op_code.h"

namespace lamina::conformance {
namespace {

constexpr double kMostPositions = 1 << 20;
// Up to here bfloat16 has every integer.
constexpr double kMostInBfloat16 = 256;

// The least and the largest value of the elements of a value.
struct Range {
  double least, most;
  bool of_positions = false;
};
using MaybeRange = std::optional<Range>;

Range of_corners(std::initializer_list<double> corners, bool of_positions) {
  return {std::min(corners), std::max(corners), of_positions};
}

double number(const AttrValue& attr) {
  if (const auto* i = std::get_if<std::int64_t>(&attr)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&attr)) return *d;
  return 0;
}

// Follows the ranges of integers through a graph; nothing for those that are not followed.
class Ranges {
 public:
  // `inputs`: of each input of the graph.
  Ranges(const Graph& graph, const std::vector<MaybeRange>& inputs)
      : graph_(graph), of_(graph.values().size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) of_[graph.inputs()[i].value] = inputs[i];
    for (const Node& node : graph.nodes())
      if (node.op->def->facts.loops)
        follow_body(node);
      else
        follow(node);
  }

 private:
  // Carries change from one repetition to the next and are not followed.
  void follow_body(const Node& node) {
    const auto first = static_cast<std::size_t>(node.int_attr("num_consts"));
    const auto end = first + static_cast<std::size_t>(node.int_attr("num_carries"));
    std::vector<MaybeRange> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(i >= first && i < end ? std::nullopt : of_[node.inputs[i]]);
    const Ranges inside(*node.body(), inputs);
  }

  void follow(const Node& node) {
    if (node.outputs.size() != 1) return;
    const Type& type = graph_.type(node.outputs[0]);
    require_exact(node, type.dtype);
    if (type.dtype != DType::i32 && type.dtype != DType::i64) return;
    const MaybeRange range = range_of(node);
    if (!range) return;
    require_fits(node, *range, type.dtype);
    of_[node.outputs[0]] = range;
  }

  MaybeRange range_of(const Node& node) const {
    if (node.inputs.empty()) return range_of_constant(node);
    std::vector<Range> in;
    for (const ValueId value : node.inputs) {
      if (value == kNoValue || !of_[value]) return {};
      in.push_back(*of_[value]);
    }
    if (in.size() == 1) return range_of_one(node, in[0]);
    return in.size() == 2 ? range_of_two(node, in[0], in[1]) : std::nullopt;
  }

  MaybeRange range_of_constant(const Node& node) const {
    const Type& type = graph_.type(node.outputs[0]);
    if (node.op->code == OpCode::iota) {
      std::int64_t longest = 1;
      for (const std::int64_t size : type.shape.dims()) longest = std::max(longest, size);
      return Range{0, static_cast<double>(longest - 1)};
    }
    if (node.op->code != OpCode::constant) return {};
    for (std::size_t i = 0; i < node.attrs.size(); ++i)
      if (node.op->attrs[i].name == "value")
        return Range{number(node.attrs[i]), number(node.attrs[i])};
    return {};
  }

  MaybeRange range_of_one(const Node& node, const Range& x) const {
    if (node.op->def->layout_only || node.op->def->view || node.op->def->facts.moves_data) return x;
    switch (node.op->code) {
      case OpCode::neg:
        return Range{-x.most, -x.least, x.of_positions};
      case OpCode::abs:
        return Range{0, std::max(-x.least, x.most), x.of_positions};
      case OpCode::square:
        return of_corners({0, x.least * x.least, x.most * x.most}, x.of_positions);
      case OpCode::scale: {
        const double by = number(node.attrs[0]);
        return of_corners({x.least * by, x.most * by}, x.of_positions);
      }
      case OpCode::shift: {
        const double by = number(node.attrs[0]);
        return Range{x.least + by, x.most + by, x.of_positions};
      }
      default:
        return {};
    }
  }

  static MaybeRange range_of_two(const Node& node, const Range& a, const Range& b) {
    const bool of_positions = a.of_positions || b.of_positions;
    switch (node.op->code) {
      case OpCode::add:
        return Range{a.least + b.least, a.most + b.most, of_positions};
      case OpCode::sub:
        return Range{a.least - b.most, a.most - b.least, of_positions};
      case OpCode::mul:
        return of_corners({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most},
                          of_positions);
      case OpCode::minimum:
        return Range{std::min(a.least, b.least), std::min(a.most, b.most), of_positions};
      case OpCode::maximum:
        return Range{std::max(a.least, b.least), std::max(a.most, b.most), of_positions};
      case OpCode::div:
        if (b.least < 1) return {};
        return Range{std::min(a.least, 0.0), std::max(a.most, 0.0), of_positions};
      case OpCode::remainder:
        if (b.least < 1) return {};
        return Range{0, b.most - 1, of_positions};
      default:
        return {};
    }
  }

  static std::string place_of(const Node& node) {
    return node.op->name + (node.origin ? " (" + to_string(*node.origin) + ")" : "");
  }

  void require_exact(const Node& node, DType to) const {
    if (to != DType::bf16 || node.inputs.empty() || node.inputs[0] == kNoValue) return;
    const MaybeRange& from = of_[node.inputs[0]];
    if (!from || !from->of_positions ||
        (from->most <= kMostInBfloat16 && from->least >= -kMostInBfloat16))
      return;
    fail(
        "convert positions with cast(.., \"f32\"): {} makes them bfloat16, which has every integer "
        "only up to {:.0f}",
        place_of(node), kMostInBfloat16);
  }

  static void require_fits(const Node& node, const Range& range, DType dtype) {
    const double largest = dtype == DType::i32 ? std::numeric_limits<std::int32_t>::max() : 9.2e18;
    if (!range.of_positions || (range.most <= largest && range.least >= -largest)) return;
    fail(
        "compute it in i64 or f32: {} of positions overflows {}; it may reach {:.3g} for a "
        "position below 2^20",
        place_of(node), name(dtype), range.most > largest ? range.most : range.least);
  }

  const Graph& graph_;
  std::vector<MaybeRange> of_;
};

}  // namespace

void check_positions_are_exact(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const decoder::ModelGraph forward = model.forward_graph({2, 5, DType::bf16});
  std::vector<MaybeRange> inputs;
  for (const decoder::InputRole& input : forward.inputs) {
    const bool is_positions =
        input.role == decoder::Input::positions || input.role == decoder::Input::positions_3d;
    inputs.push_back(is_positions ? MaybeRange(Range{0, kMostPositions - 1, true}) : std::nullopt);
  }
  const Graph plain = ops::inline_custom(forward.graph);
  const Ranges ranges(plain, inputs);
}

}  // namespace lamina::conformance
