#include "passes/join_pads.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "graph/count_reads.h"
#include "graph/rewrite.h"
#include "graph/written_over.h"
#include "ops/op_code.h"
#include "ops/tensor.h"
#include "passes/levels.h"

namespace lamina::passes {
namespace {

// A part of a sum of pads: it has the indices [first, past) of the sum's dim.
struct Part {
  ValueId value;
  std::int64_t first, past;
};

// The parts of a sum, in the order of their indices.
struct Parts {
  std::int64_t dim = -1;
  std::vector<Part> list;
};

class Joining {
 public:
  explicit Joining(const Graph& graph)
      : graph_(graph), overwrites_(graph), reads_(count_reads(graph)) {}

  std::optional<Graph> run() {
    // From the end: a sum is found before the sums that are its terms.
    for (NodeId n = static_cast<NodeId>(graph_.nodes().size()); n-- > 0;) find(n);
    if (sums_.empty()) return std::nullopt;
    Graph out;
    Copier copy(graph_, out);
    copy.inputs();
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.node(n);
      if (const auto sum = sums_.find(n); sum != sums_.end())
        emit(node, sum->second, copy, out);
      else if (!joined_.contains(n))
        copy.node(node);
    }
    copy.outputs();
    return out;
  }

 private:
  void find(NodeId n) {
    const Node& node = graph_.node(n);
    if (!node.op->def->facts.adds || joined_.contains(n)) return;
    Parts parts;
    std::vector<NodeId> members;
    for (ValueId term : node.inputs)
      if (!collect(term, graph_.type(node.outputs[0]), parts, members)) return;
    std::ranges::sort(parts.list, {}, &Part::first);
    for (std::size_t i = 1; i < parts.list.size(); ++i)
      if (parts.list[i].first != parts.list[i - 1].past) return;
    // The parts are read at the sum.
    for (NodeId member : members)
      if (overwrites_.forbid(graph_.node(member), n)) return;
    joined_.insert(members.begin(), members.end());
    sums_.emplace(n, std::move(parts));
  }

  // Adds the parts of a term that is a pad or a sum of pads; false if it is anything else.
  bool collect(ValueId term, const Type& sum, Parts& parts, std::vector<NodeId>& members) const {
    const NodeId made_by = graph_.value(term).node;
    if (made_by == kNoNode || reads_[term] != 1 || graph_.type(term) != sum) return false;
    const Node& node = graph_.node(made_by);
    members.push_back(made_by);
    if (node.op->def->facts.adds)
      return std::ranges::all_of(node.inputs,
                                 [&](ValueId v) { return collect(v, sum, parts, members); });
    if (node.op->code != OpCode::pad) return false;
    std::int64_t dim = node.int_attr("dim");
    if (dim < 0) dim += sum.ndim();
    if (parts.dim >= 0 && dim != parts.dim) return false;
    parts.dim = dim;
    parts.list.push_back({node.inputs[0], node.int_attr("before"),
                          sum.dim(static_cast<int>(dim)) - node.int_attr("after")});
    return true;
  }

  void emit(const Node& sum, const Parts& parts, Copier& copy, Graph& out) const {
    out.set_origin(sum.origin);
    std::vector<Tensor> tensors;
    for (const Part& part : parts.list) tensors.push_back(copy.get(part.value));
    Tensor all = ops::concat(tensors, {.dim = parts.dim});
    const std::int64_t before = parts.list.front().first;
    const std::int64_t after =
        graph_.type(sum.outputs[0]).dim(static_cast<int>(parts.dim)) - parts.list.back().past;
    if (before > 0 || after > 0)
      all = ops::pad(all, {.dim = parts.dim, .before = before, .after = after});
    copy.set(sum.outputs[0], all);
  }

  const Graph& graph_;
  const Overwrites overwrites_;
  std::vector<int> reads_;
  std::unordered_map<NodeId, Parts> sums_;
  std::unordered_set<NodeId> joined_;  // pads and sums that a sum replaces
};

}  // namespace

Graph join_pads(Graph graph) {
  return on_all_levels(std::move(graph), [](const Graph& level) { return Joining(level).run(); });
}

}  // namespace lamina::passes
