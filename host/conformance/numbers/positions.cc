#include "conformance/numbers/positions.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "conformance/check.h"
#include "graph/scan_shape.h"
#include "ops/custom.h"
#include "ops/number_range.h"

namespace lamina::conformance {
namespace {

constexpr double kMostPositions = 1 << 20;
// Up to here bfloat16 has every integer.
constexpr double kMostInBfloat16 = 256;

// The range of a value's elements, and whether they are computed from positions.
struct Range : ops::NumberRange {
  bool of_positions = false;
};
using MaybeRange = std::optional<Range>;

// True for types that have every position.
bool has_every_position(DType dtype) {
  return dtype == DType::i32 || dtype == DType::i64 || dtype == DType::f32 || dtype == DType::f64;
}

// Follows the ranges of numbers through a graph; nothing for those that are not followed.
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
    const ScanShape shape = scan_shape(node);
    std::vector<MaybeRange> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(shape.is_carried(i) ? std::nullopt : of_[node.inputs[i]]);
    const Ranges inside(*node.body(), inputs);
  }

  void follow(const Node& node) {
    if (node.outputs.size() != 1) return;
    const Type& type = graph_.type(node.outputs[0]);
    require_exact(node, type.dtype);
    if (!has_every_position(type.dtype)) return;
    const MaybeRange range = range_of(node);
    if (!range) return;
    require_fits(node, *range, type.dtype);
    of_[node.outputs[0]] = range;
  }

  MaybeRange range_of(const Node& node) const {
    std::vector<ops::NumberRange> inputs;
    bool of_positions = false;
    for (const ValueId value : node.inputs) {
      if (value == kNoValue || !of_[value]) return {};
      inputs.push_back(*of_[value]);
      of_positions = of_positions || of_[value]->of_positions;
    }
    const auto range = ops::range_of_result(graph_, node, inputs);
    return range ? MaybeRange({*range, of_positions}) : std::nullopt;
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
        "compute from positions in f32, with cast(.., \"f32\") of them: {} makes bfloat16 of "
        "numbers up to {:.3g} for a position below 2^20; bfloat16 has every integer only up to "
        "{:.0f}",
        place_of(node), std::max(from->most, -from->least), kMostInBfloat16);
  }

  static void require_fits(const Node& node, const Range& range, DType dtype) {
    if (is_floating(dtype)) return;
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
    inputs.push_back(is_positions ? MaybeRange({{0, kMostPositions - 1}, true}) : std::nullopt);
  }
  const Graph plain = ops::inline_custom(forward.graph);
  const Ranges ranges(plain, inputs);
}

}  // namespace lamina::conformance
