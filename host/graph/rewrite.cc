#include "graph/rewrite.h"

#include "core/error.h"

namespace lamina {

void Copier::set(ValueId old, Tensor now) {
  LAMINA_ASSERT(now.graph == &to_);
  map_[old] = now.id;
  const Value& value = from_.value(old);
  same_types_ = same_types_ && value.type == now.type();
  if (!value.tag.empty()) to_.set_tag(now.id, value.tag);
}

ValueId Copier::mapped(ValueId old) const {
  if (old == kNoValue) return kNoValue;
  LAMINA_ASSERT(map_[old] != kNoValue);
  return map_[old];
}

Tensor Copier::get(ValueId old) const {
  return old == kNoValue ? Tensor{} : to_.tensor(mapped(old));
}

std::vector<Tensor> Copier::operands(const Node& node) const {
  std::vector<Tensor> out;
  out.reserve(node.inputs.size());
  for (ValueId v : node.inputs) out.push_back(get(v));
  return out;
}

void Copier::inputs() {
  for (const GraphInput& input : from_.inputs())
    set(input.value, to_.add_input(input.name, from_.type(input.value)));
}

void Copier::node(const Node& node) {
  if (same_types_) {
    ValueList inputs;
    for (ValueId v : node.inputs) inputs.push_back(mapped(v));
    NodeId made = to_.add_copy(from_, node, std::move(inputs));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      map_[node.outputs[i]] = to_.node(made).outputs[i];
    return;
  }
  std::vector<Tensor> results = to_.add_node_like(node, operands(node));
  for (std::size_t i = 0; i < results.size(); ++i) {
    set(node.outputs[i], results[i]);
    to_.set_axes(results[i].id, from_.type(node.outputs[i]).axes);
  }
}

void Copier::outputs() {
  for (const GraphOutput& output : from_.outputs())
    to_.add_output(output.name, get(output.value), output.alias_input);
}

std::vector<NodeId> order_of_use(const Graph& graph, std::span<const ValueId> roots, NodeId first) {
  std::vector<NodeId> out, path;
  std::vector<std::size_t> operands_seen(graph.nodes().size(), 0);
  std::vector<bool> met(graph.nodes().size(), false);
  const auto meet = [&](NodeId node) {
    if (node == kNoNode || node < first || met[node]) return;
    met[node] = true;
    path.push_back(node);
  };
  const auto follow = [&](NodeId from) {
    meet(from);
    while (!path.empty()) {  // no recursion: paths may be as long as the graph
      const NodeId node = path.back();
      const ValueList& inputs = graph.node(node).inputs;
      if (operands_seen[node] == inputs.size()) {
        out.push_back(node);
        path.pop_back();
      } else if (const ValueId input = inputs[operands_seen[node]++]; input != kNoValue) {
        meet(graph.value(input).node);
      }
    }
  };
  for (ValueId root : roots)
    if (root != kNoValue) follow(graph.value(root).node);
  for (NodeId node = first; node < graph.nodes().size(); ++node) follow(node);
  return out;
}

std::vector<Tensor> inline_graph(const Graph& body, Graph& to, std::span<const Tensor> inputs) {
  Copier copy(body, to);
  LAMINA_ASSERT(inputs.size() == body.inputs().size());
  for (std::size_t i = 0; i < inputs.size(); ++i) copy.set(body.inputs()[i].value, inputs[i]);
  for (const Node& node : body.nodes()) copy.node(node);
  std::vector<Tensor> out;
  for (const GraphOutput& output : body.outputs()) out.push_back(copy.get(output.value));
  return out;
}

Graph without_dead_nodes(const Graph& graph) {
  std::vector<bool> wanted(graph.values().size()), alive(graph.nodes().size());
  for (const GraphOutput& output : graph.outputs()) wanted[output.value] = true;
  for (NodeId n = static_cast<NodeId>(graph.nodes().size()); n-- > 0;) {
    for (ValueId v : graph.node(n).outputs) alive[n] = alive[n] || wanted[v];
    if (!alive[n]) continue;
    for (ValueId v : graph.node(n).inputs)
      if (v != kNoValue) wanted[v] = true;
  }
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    if (alive[n]) copy.node(graph.node(n));
  copy.outputs();
  return out;
}

}  // namespace lamina
