#include "passes/hoist.h"

#include <memory>

#include "graph/rewrite.h"
#include "passes/bodies.h"

namespace lamina::passes {
namespace {

// Which values of the body depend on consts alone.
std::vector<bool> invariant_values(const Graph& body, std::size_t consts) {
  std::vector<bool> out(body.values().size());
  for (std::size_t i = 0; i < consts; ++i) out[body.inputs()[i].value] = true;
  for (const Node& node : body.nodes()) {
    bool all = !node.inputs.empty() && !node.op->def->in_place;
    for (ValueId v : node.inputs) all = all && (v == kNoValue || out[v]);
    for (ValueId v : node.outputs) out[v] = all;
  }
  return out;
}

void hoist(const Node& scan, Copier& copy, Graph& out) {
  auto body = scan.body();
  std::size_t consts = static_cast<std::size_t>(scan.int_attr("num_consts"));
  std::vector<bool> invariant = invariant_values(*body, consts);

  Graph inner;
  Copier inside(*body, inner), outside(*body, out);
  for (std::size_t i = 0; i < consts; ++i)
    outside.set(body->inputs()[i].value, copy.get(scan.inputs[i]));
  std::vector<Tensor> operands = copy.operands(scan);
  std::vector<std::pair<ValueId, Tensor>> handed_in;  // values of the body made outside
  std::vector<bool> moved(body->nodes().size());
  for (std::size_t n = 0; n < body->nodes().size(); ++n) {
    const Node& node = body->nodes()[n];
    bool all = true;
    for (ValueId v : node.outputs) all = all && invariant[v];
    if (!all) continue;
    moved[n] = true;
    std::vector<Tensor> made = outside.node(node);
    for (std::size_t i = 0; i < made.size(); ++i) handed_in.emplace_back(node.outputs[i], made[i]);
  }
  if (handed_in.empty()) {
    copy.node(scan);
    return;
  }
  // Consts first, then the new consts, then the rest.
  for (std::size_t i = 0; i < consts; ++i)
    inside.set(body->inputs()[i].value,
               inner.add_input(body->inputs()[i].name, body->type(body->inputs()[i].value)));
  for (const auto& [value, tensor] : handed_in)
    inside.set(value, inner.add_input("hoisted " + std::to_string(value), body->type(value)));
  for (std::size_t i = consts; i < body->inputs().size(); ++i)
    inside.set(body->inputs()[i].value,
               inner.add_input(body->inputs()[i].name, body->type(body->inputs()[i].value)));
  for (std::size_t n = 0; n < body->nodes().size(); ++n)
    if (!moved[n]) inside.node(body->nodes()[n]);
  for (const GraphOutput& output : body->outputs()) {
    int alias = output.alias_input;
    if (alias >= static_cast<int>(consts)) alias += static_cast<int>(handed_in.size());
    inner.add_output(output.name, inside.get(output.value), alias);
  }
  std::vector<Tensor> given(operands.begin(),
                            operands.begin() + static_cast<std::ptrdiff_t>(consts));
  for (const auto& [value, tensor] : handed_in) given.push_back(tensor);
  given.insert(given.end(), operands.begin() + static_cast<std::ptrdiff_t>(consts), operands.end());

  Node changed = scan;
  changed.attrs[static_cast<std::size_t>(scan.op->attr_index("body"))] =
      std::make_shared<const Graph>(std::move(inner));
  changed.attrs[static_cast<std::size_t>(scan.op->attr_index("num_consts"))] =
      static_cast<std::int64_t>(consts + handed_in.size());
  std::vector<Tensor> made = out.add_node_like(changed, given);
  for (std::size_t i = 0; i < made.size(); ++i) copy.set(scan.outputs[i], made[i]);
}

}  // namespace

Graph hoist_from_scans(const Graph& original) {
  Graph graph = with_bodies(original, hoist_from_scans);
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "scan")
      hoist(node, copy, out);
    else
      copy.node(node);
  }
  copy.outputs();
  return out;
}

}  // namespace lamina::passes
