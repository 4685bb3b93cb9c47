#include "runtime/node_groups.h"

#include <algorithm>
#include <set>

#include "graph/call.h"
#include "graph/views.h"
#include "graph/written_over.h"
#include "runtime/program.h"

namespace lamina {
namespace {

// All results of a group are alive at once. Up to 64 MiB of them may need new memory, so that a
// program needs little more than with one call per node.
constexpr std::int64_t kMostNewBytes = std::int64_t{64} << 20;

// The values that the nodes of a group use, each by the value whose memory it is in.
class GroupMemory {
 public:
  GroupMemory(const Graph& graph, const KernelChoice& choice) : graph_(graph), choice_(choice) {}

  void add(const Node& node) {
    new_bytes_ += new_bytes(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      read_.insert(made_at(graph_, node.inputs[i]));
      if (may_overwrite(node, i)) overwritten_.insert(made_at(graph_, node.inputs[i]));
    }
    made_.insert(node.outputs.begin(), node.outputs.end());
  }

  bool has_room_for(const Node& node) const {
    return new_bytes_ + new_bytes(node) <= kMostNewBytes;
  }

  bool is_independent_of(const Node& node) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      const ValueId v = made_at(graph_, node.inputs[i]);
      if (made_.contains(v) || overwritten_.contains(v)) return false;
      if (may_overwrite(node, i) && read_.contains(v)) return false;
    }
    return true;
  }

 private:
  // Kernels write over an operand only with a result of its type.
  bool may_overwrite(const Node& node, std::size_t input, std::size_t output) const {
    if (always_written_over(node, output) == node.inputs[input]) return true;
    return (choice_.in_place >> std::min<std::size_t>(input, 31) & 1) != 0 &&
           graph_.type(node.inputs[input]) == graph_.type(node.outputs[output]);
  }
  bool may_overwrite(const Node& node, std::size_t input) const {
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (may_overwrite(node, input, i)) return true;
    return false;
  }

  // Returns the bytes of results that are no outputs of the graph and replace no operand.
  std::int64_t new_bytes(const Node& node) const {
    const auto replaces_operand = [&](std::size_t output) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNoValue && may_overwrite(node, i, output)) return true;
      return false;
    };
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (std::ranges::find(graph_.outputs(), node.outputs[i], &GraphOutput::value) ==
              graph_.outputs().end() &&
          !replaces_operand(i))
        bytes += graph_.type(node.outputs[i]).bytes();
    return bytes;
  }

  const Graph& graph_;
  const KernelChoice& choice_;
  std::set<ValueId> read_, overwritten_, made_;
  std::int64_t new_bytes_ = 0;
};

}  // namespace

std::vector<NodeId> add_following_nodes(const Graph& graph, const Backend& backend, NodeId first,
                                        const KernelChoice& choice, KernelGroup& kernel) {
  std::vector<NodeId> out{first};
  GroupMemory memory(graph, choice);
  memory.add(graph.node(first));
  for (NodeId n = first + 1; n < graph.nodes().size(); ++n) {
    const Node& node = graph.node(n);
    std::int64_t offset;
    if (is_view(graph, node, &offset)) continue;
    const bool joins = node.op == graph.node(first).op && memory.is_independent_of(node) &&
                       memory.has_room_for(node) &&
                       with_node_view(graph, node, [&](const NodeView& view) {
                         return choose_kernel(backend, view) == &choice && kernel.add(view);
                       });
    if (!joins) break;
    memory.add(node);
    out.push_back(n);
  }
  return out;
}

std::string result_text(const Graph& graph, std::span<const NodeId> nodes) {
  const Node& first = graph.node(nodes.front());
  std::string out = first.outputs.empty() ? "" : to_string(graph.type(first.outputs[0]));
  if (nodes.size() > 1) out += fmt::format(" and {} more", nodes.size() - 1);
  return out;
}

}  // namespace lamina
