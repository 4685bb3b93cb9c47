#include "runtime/output_places.h"

#include <algorithm>
#include <cstdint>

#include "graph/op.h"
#include "graph/views.h"
#include "graph/written_over.h"
#include "runtime/program.h"

namespace lamina {
namespace {

class OutputPlaces {
 public:
  OutputPlaces(const Graph& graph, const Backend& backend, const std::vector<int>& last_uses,
               const std::vector<bool>& in_host)
      : graph_(graph), backend_(backend), last_uses_(last_uses), in_host_(in_host) {}

  std::map<ValueId, int> find() {
    for (std::size_t o = 0; o < graph_.outputs().size(); ++o)
      if (graph_.outputs()[o].alias_input < 0)
        out_.emplace(made_at(graph_, graph_.outputs()[o].value), static_cast<int>(o));
    for (std::size_t n = graph_.nodes().size(); n-- > 0;) {
      const Node& node = graph_.node(static_cast<NodeId>(n));
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        const auto output = out_.find(node.outputs[i]);
        if (output == out_.end()) continue;
        const ValueId v = operand_to_write_over(node, i, static_cast<int>(n));
        if (v != kNoValue) out_.emplace(v, output->second);
      }
    }
    return std::move(out_);
  }

 private:
  // Returns an operand that only the node and earlier ones use, and that its kernel may overwrite
  // with result `i`, or kNoValue. No other result takes it.
  ValueId operand_to_write_over(const Node& node, std::size_t i, int step) const {
    const auto is_temporary = [&](ValueId v) {
      return v != kNoValue && last_uses_[v] == step && graph_.value(v).node != kNoNode &&
             made_at(graph_, v) == v && !out_.contains(v) && !in_host_[v] &&
             graph_.type(v) == graph_.type(node.outputs[i]) && !is_taken(node, i, v) &&
             std::ranges::count_if(node.inputs, [&](ValueId other) {
               return other != kNoValue && made_at(graph_, other) == v;
             }) == 1;
    };
    if (std::ranges::none_of(node.inputs, is_temporary) || node.op->def->facts.loops)
      return kNoValue;
    std::uint32_t in_place = 0;
    with_node_view(graph_, node, [&](const NodeView& view) {
      if (const KernelChoice* choice = choose_kernel(backend_, view)) in_place = choice->in_place;
    });
    for (std::size_t input = 0; input < node.inputs.size(); ++input)
      if (in_place >> std::min<std::size_t>(input, 31) & 1 && is_temporary(node.inputs[input]))
        return node.inputs[input];
    return kNoValue;
  }

  // True if another result than `i` is always written over `v`.
  static bool is_taken(const Node& node, std::size_t i, ValueId v) {
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (o != i && always_written_over(node, o) == v) return true;
    return false;
  }

  const Graph& graph_;
  const Backend& backend_;
  const std::vector<int>& last_uses_;
  const std::vector<bool>& in_host_;
  std::map<ValueId, int> out_;
};

}  // namespace

std::map<ValueId, int> output_places(const Graph& graph, const Backend& backend,
                                     const std::vector<int>& last_uses,
                                     const std::vector<bool>& in_host) {
  return OutputPlaces(graph, backend, last_uses, in_host).find();
}

}  // namespace lamina
