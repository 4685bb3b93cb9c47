#include "passes/dead_code.h"

#include <algorithm>

#include "graph/rewrite.h"
#include "ops/registry.h"
#include "passes/bodies.h"

namespace lamina::passes {
namespace {

std::vector<bool> used_values(const Graph& graph) {
  std::vector<bool> used(graph.values().size());
  for (const GraphOutput& output : graph.outputs()) used[output.value] = true;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    bool any = false;
    for (ValueId v : node.outputs) any = any || used[v];
    if (!any) continue;
    for (ValueId v : node.inputs)
      if (v != kNoValue) used[v] = true;
  }
  return used;
}

bool has_work(const Graph& graph, const std::vector<bool>& used) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return node.op->name == "scan" ||
           std::ranges::none_of(node.outputs, [&](ValueId v) { return used[v]; });
  });
}

// Copies a scan without the ys that nobody reads and without the consts and xs that its body then
// no longer reads. A y that is written over an x is state, and stays.
void copy_scan(const Graph& graph, const Node& node, const std::vector<bool>& used, Copier& copy,
               Graph& out) {
  auto body = node.body();
  std::size_t carries = static_cast<std::size_t>(node.int_attr("num_carries"));
  std::size_t consts = static_cast<std::size_t>(node.int_attr("num_consts"));

  Graph narrowed = *body;
  std::vector<GraphOutput> outputs;
  std::vector<ValueId> results;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const GraphOutput& output = body->outputs()[i];
    if (i >= carries && !used[node.outputs[i]] && output.alias_input < 0) continue;
    outputs.push_back(output);
    results.push_back(node.outputs[i]);
  }
  narrowed.set_outputs(outputs);
  narrowed = remove_dead_code(narrowed);

  // Rebuild the body without the inputs that are never read.
  std::vector<bool> read = used_values(narrowed);
  bool all_read = true;
  for (std::size_t i = 0; i < narrowed.inputs().size(); ++i)
    all_read &= (i >= consts && i < consts + carries) || read[narrowed.inputs()[i].value];
  if (all_read && results.size() == node.outputs.size()) {
    Node changed = node;
    changed.attrs[static_cast<std::size_t>(node.op->attr_index("body"))] =
        std::make_shared<const Graph>(std::move(narrowed));
    copy.node(changed);
    return;
  }
  auto inner = std::make_shared<Graph>();
  Copier copy_body(narrowed, *inner);
  std::vector<Tensor> operands;
  std::vector<int> new_index(narrowed.inputs().size(), -1);
  std::int64_t kept_consts = 0;
  for (std::size_t i = 0; i < narrowed.inputs().size(); ++i) {
    const GraphInput& input = narrowed.inputs()[i];
    bool is_carry = i >= consts && i < consts + carries;
    if (!is_carry && !read[input.value]) continue;
    new_index[i] = static_cast<int>(inner->inputs().size());
    copy_body.set(input.value, inner->add_input(input.name, narrowed.type(input.value)));
    operands.push_back(copy.get(node.inputs[i]));
    if (i < consts) ++kept_consts;
  }
  for (const Node& n : narrowed.nodes()) copy_body.node(n);
  for (const GraphOutput& output : narrowed.outputs())
    inner->add_output(
        output.name, copy_body.get(output.value),
        output.alias_input < 0 ? -1 : new_index[static_cast<std::size_t>(output.alias_input)]);

  Node changed = node;
  changed.attrs[static_cast<std::size_t>(node.op->attr_index("body"))] =
      std::shared_ptr<const Graph>(inner);
  changed.attrs[static_cast<std::size_t>(node.op->attr_index("num_consts"))] = kept_consts;
  std::vector<Tensor> made = out.add_node_like(changed, operands);
  for (std::size_t i = 0; i < made.size(); ++i) {
    copy.set(results[i], made[i]);
    out.set_axes(made[i].id, graph.type(results[i]).axes);
  }
}

}  // namespace

Graph remove_dead_code(const Graph& graph) {
  std::vector<bool> used = used_values(graph);
  if (!has_work(graph, used)) return graph;
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (ValueId v : node.outputs) any = any || used[v];
    if (!any) continue;
    if (node.op->name == "scan")
      copy_scan(graph, node, used, copy, out);
    else
      copy.node(node);
  }
  copy.outputs();
  return out;
}

}  // namespace lamina::passes
