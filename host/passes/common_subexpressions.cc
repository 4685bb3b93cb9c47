#include "passes/common_subexpressions.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "graph/rewrite.h"
#include "graph/views.h"
#include "graph/written_over.h"
#include "passes/levels.h"

namespace lamina::passes {
namespace {

// Finds nodes of one level that compute the same as an earlier one. A result that an op writes over
// stays apart: the other one may be read after that.
class Twins {
 public:
  explicit Twins(const Graph& graph)
      : graph_(graph),
        overwrites_(graph),
        first_(graph.values().size()),
        table_(std::bit_ceil(2 * graph.nodes().size() + 1), kNoNode) {
    for (ValueId v = 0; v < first_.size(); ++v) first_[v] = v;
    for (NodeId n = 0; n < graph.nodes().size(); ++n) place(n);
  }

  bool any() const { return any_; }
  // Returns the node that replaces `node`, or `node` itself.
  const Node& first(const Node& node) const {
    return graph_.node(graph_.value(first_[node.outputs[0]]).node);
  }

 private:
  void place(NodeId n) {
    const Node& node = graph_.node(n);
    if (node.op->def->in_place || node.op->def->facts.loops || node.outputs.empty()) return;
    if (is_written_over(node)) return;
    std::size_t at = hash(node) & (table_.size() - 1);
    while (table_[at] != kNoNode && !same(graph_.node(table_[at]), node))
      at = (at + 1) & (table_.size() - 1);
    if (table_[at] == kNoNode) {
      table_[at] = n;
      return;
    }
    any_ = true;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      first_[node.outputs[i]] = graph_.node(table_[at]).outputs[i];
  }

  // Views share the memory of their operand whether they are merged or not.
  bool is_written_over(const Node& node) const {
    std::int64_t offset;
    return std::ranges::any_of(node.outputs,
                               [&](ValueId v) { return overwrites_.of(v) != kNoNode; }) &&
           !is_view(graph_, node, &offset);
  }

  ValueId first_of(ValueId v) const { return v == kNoValue ? v : first_[v]; }

  bool same(const Node& a, const Node& b) const {
    auto same_input = [&](ValueId x, ValueId y) { return first_of(x) == first_of(y); };
    auto same_tag = [&](ValueId x, ValueId y) {
      return graph_.value(x).tag == graph_.value(y).tag;
    };
    return a.op == b.op && std::ranges::equal(a.inputs, b.inputs, same_input) &&
           std::ranges::equal(a.outputs, b.outputs, same_tag) && same_attrs(a.attrs, b.attrs);
  }

  std::size_t hash(const Node& node) const {
    std::size_t h = node.op->id;
    for (ValueId v : node.inputs) h = h * 1000003 + first_of(v);
    for (const AttrValue& attr : node.attrs) {
      if (auto i = std::get_if<std::int64_t>(&attr)) h = h * 31 + static_cast<std::size_t>(*i);
      if (auto f = std::get_if<double>(&attr)) h = h * 31 + std::bit_cast<std::uint64_t>(*f);
      if (auto list = std::get_if<std::vector<std::int64_t>>(&attr))
        for (std::int64_t i : *list) h = h * 31 + static_cast<std::size_t>(i);
    }
    return h ^ (h >> 32);
  }

  const Graph& graph_;
  const Overwrites overwrites_;
  std::vector<ValueId> first_;  // replacement of each value
  std::vector<NodeId> table_;   // by hash, with linear probing
  bool any_ = false;
};

std::optional<Graph> merge_level(const Graph& graph) {
  Twins twins(graph);
  if (!twins.any()) return std::nullopt;
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) {
    const Node& first = node.outputs.empty() ? node : twins.first(node);
    if (&first == &node) {
      copy.node(node);
      continue;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      copy.set(node.outputs[i], copy.get(first.outputs[i]));
  }
  copy.outputs();
  return out;
}

}  // namespace

Graph merge_common_subexpressions(Graph graph) {
  return on_all_levels(std::move(graph), merge_level);
}

}  // namespace lamina::passes
