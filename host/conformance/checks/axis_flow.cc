#include "conformance/checks/axis_flow.h"

#include <algorithm>
#include <map>

#include "conformance/check.h"
#include "graph/scan_shape.h"
#include "ops/op_code.h"

namespace lamina::conformance {
namespace {

using Names = AxisFlow::Names;

// A dim that an op combines with others.
struct Dim {
  std::string_view name;  // empty: unknown
  std::int64_t size = 1;
  std::size_t input = 0;
  int index = 0;
};

std::string shown(const Graph& graph, const Node& node, const Dim& dim) {
  const std::size_t named = std::min(dim.input, node.op->inputs.size() - 1);
  return fmt::format("dim {} of {} {} is '{}'", dim.index, node.op->inputs[named].name,
                     to_string(graph.type(node.inputs[dim.input])), dim.name);
}

[[noreturn]] void refuse(const Graph& graph, const Node& node, const Dim& a, const Dim& b) {
  fail("{}{}: {}, and {}; dims that an op combines must have the same axis", node.op->name,
       node.origin ? " (" + to_string(*node.origin) + ")" : "", shown(graph, node, a),
       shown(graph, node, b));
}

std::string_view without(std::string_view name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  return name;
}

// The quantity counted along a dim. Gains of norms and taps of convolutions occur with any axis,
// and another check (TRC-4) covers tokens.
std::string_view counted(std::string_view name) {
  name = without(without(name, "act_"), "cache_");
  for (const std::string_view any : {"norm", "conv", "batch", "length", "positions"})
    if (name == any) return {};
  if (name == "kv_heads" || name == "recurrent_heads") return "heads";
  if (name == "expert_mlp") return "mlp";
  return name;
}

// Dims with a size above 1, in the same order in `in` and `out`: [first, last) of both with the
// same number of elements.
struct Group {
  std::vector<std::size_t> in, out;
};

std::vector<Group> groups_of(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  std::int64_t of_in = 1, of_out = 1;
  int i = 0, o = 0;
  while (i < in.ndim() || o < out.ndim()) {
    if (of_in == of_out) groups.emplace_back(), of_in = of_out = 1;
    const bool from_in = o == out.ndim() || (i < in.ndim() && of_in <= of_out);
    const Shape& shape = from_in ? in : out;
    int& at = from_in ? i : o;
    if (shape[at] > 1) (from_in ? groups.back().in : groups.back().out).push_back(std::size_t(at));
    (from_in ? of_in : of_out) *= shape[at];
    ++at;
  }
  return groups;
}

}  // namespace

AxisFlow::AxisFlow(const Graph& graph) : graph_(graph), values_(graph.values().size()) {
  for (ValueId v = 0; v < values_.size(); ++v)
    values_[v].resize(static_cast<std::size_t>(graph.type(v).ndim()));
}

void AxisFlow::set_parameter(ValueId value, std::span<const AxisId> axes) {
  Names& names = values_[value];
  for (std::size_t d = 0; d < axes.size(); ++d)
    names[names.size() - axes.size() + d] = counted(axis_name(axes[d]));
}

void AxisFlow::run() {
  for (const Node& node : graph_.nodes()) follow(node);
}

void AxisFlow::follow(const Node& node) {
  if (node.op->code == OpCode::reshape) return follow_reshape(node);
  if (node.op->def->facts.loops) return follow_scan(node);
  with_node_view(graph_, node, [&](const NodeView& view) {
    if (const auto rule = ops::split_rule(view)) follow_rule(node, *rule);
  });
}

// Dims with one letter count the same quantity. Dims that were cut or joined (slice, concat) do
// not: their sizes differ.
void AxisFlow::follow_rule(const Node& node, const ops::SplitRule& rule) {
  std::map<char, Dim> known;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const std::string& letters = rule.inputs[i].dims;
    for (std::size_t d = 0; d < letters.size(); ++d) {
      const Dim dim{at(node.inputs[i])[d], graph_.type(node.inputs[i]).dim(static_cast<int>(d)), i,
                    static_cast<int>(d)};
      if (letters[d] == '_' || dim.size == 1 || dim.name.empty()) continue;
      const auto [found, is_new] = known.emplace(letters[d], dim);
      if (!is_new && found->second.name != dim.name && found->second.size == dim.size)
        refuse(graph_, node, found->second, dim);
    }
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const std::string& letters = rule.outputs[o].dims;
    for (std::size_t d = 0; d < letters.size(); ++d) {
      const auto found = known.find(letters[d]);
      if (found == known.end()) continue;
      const std::int64_t size = graph_.type(node.outputs[o]).dim(static_cast<int>(d));
      if (size == found->second.size) values_[node.outputs[o]][d] = found->second.name;
    }
  }
}

// "heads" is the number of heads times their width, so it is also the number alone; any other axis
// is lost if a dim is cut or becomes part of another.
void AxisFlow::follow_reshape(const Node& node) {
  const ValueId in = node.inputs[0], out = node.outputs[0];
  for (const Group& group : groups_of(graph_.type(in).shape, graph_.type(out).shape)) {
    if (group.in.empty() || group.out.empty()) continue;
    const std::size_t fewer = std::min(group.in.size(), group.out.size());
    const std::size_t more = std::max(group.in.size(), group.out.size());
    const std::string_view name = at(in)[group.in[0]];
    if (fewer == 1 && (more == 1 || name == "heads")) values_[out][group.out[0]] = name;
  }
}

void AxisFlow::follow_scan(const Node& node) {
  const Graph& body = *node.body();
  const ScanShape shape = scan_shape(node);
  AxisFlow inside(body);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    Names names = at(node.inputs[i]);
    if (i >= shape.first_x()) names.erase(names.begin());
    inside.set(body.inputs()[i].value, std::move(names));
  }
  inside.run();
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    Names names = inside.at(body.outputs()[o].value);
    if (shape.is_stacked(o)) names.insert(names.begin(), std::string_view{});
    set(node.outputs[o], std::move(names));
  }
}

}  // namespace lamina::conformance
