#include "passes/hoist.h"

#include <map>
#include <memory>

#include "graph/rewrite.h"
#include "graph/scan_shape.h"
#include "graph/written_over.h"
#include "passes/levels.h"

namespace lamina::passes {
namespace {

// The new body and its inputs: consts first, then hoisted values, then the rest.
struct Hoisted {
  std::shared_ptr<const Graph> body;
  std::vector<NodeId> moved;       // nodes of the old body that run outside
  std::vector<ValueId> handed_in;  // their results
};

// Returns the nodes of the body that depend only on consts.
std::vector<NodeId> invariant_nodes(const Graph& body, std::size_t consts) {
  std::vector<NodeId> out;
  std::vector<bool> invariant(body.values().size());
  const Overwrites overwrites(body);
  for (std::size_t i = 0; i < consts; ++i) invariant[body.inputs()[i].value] = true;
  for (NodeId n = 0; n < body.nodes().size(); ++n) {
    const Node& node = body.node(n);
    bool all = !node.inputs.empty() && !node.op->def->in_place;
    for (ValueId v : node.inputs) all = all && (v == kNoValue || invariant[v]);
    // A result that the body writes over is made again in every iteration.
    for (ValueId v : node.outputs) all = all && overwrites.of(v) == kNoNode;
    for (ValueId v : node.outputs) invariant[v] = all;
    if (all) out.push_back(n);
  }
  return out;
}

Hoisted hoisted(const Graph& body, std::size_t consts) {
  Hoisted out{nullptr, invariant_nodes(body, consts), {}};
  if (out.moved.empty()) return out;
  for (NodeId n : out.moved)
    for (ValueId v : body.node(n).outputs) out.handed_in.push_back(v);

  auto inner = std::make_shared<Graph>();
  Copier copy(body, *inner);
  auto add_input = [&](std::string name, ValueId v) {
    copy.set(v, inner->add_input(std::move(name), body.type(v)));
  };
  auto add_inputs = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      add_input(body.inputs()[i].name, body.inputs()[i].value);
  };
  add_inputs(0, consts);
  for (ValueId v : out.handed_in) add_input("hoisted " + std::to_string(v), v);
  add_inputs(consts, body.inputs().size());
  for (NodeId n = 0, next = 0; n < body.nodes().size(); ++n) {
    if (next < out.moved.size() && out.moved[next] == n)
      ++next;
    else
      copy.node(body.node(n));
  }
  for (const GraphOutput& output : body.outputs()) {
    int alias = output.alias_input;
    if (alias >= static_cast<int>(consts)) alias += static_cast<int>(out.handed_in.size());
    inner->add_output(output.name, copy.get(output.value), alias);
  }
  out.body = std::move(inner);
  return out;
}

class Hoister {
 public:
  explicit Hoister(const Graph& graph) : graph_(graph) {}

  std::optional<Graph> run() {
    bool any = false;
    for (const Node& node : graph_.nodes())
      if (node.op->def->facts.loops) any = !find(node).moved.empty() || any;
    if (!any) return std::nullopt;
    Graph out;
    Copier copy(graph_, out);
    copy.inputs();
    for (const Node& node : graph_.nodes()) {
      if (node.op->def->facts.loops && !find(node).moved.empty())
        emit(node, find(node), copy, out);
      else
        copy.node(node);
    }
    copy.outputs();
    return out;
  }

 private:
  const Hoisted& find(const Node& scan) {
    const std::size_t consts = scan_shape(scan).consts;
    auto [at, fresh] = known_.try_emplace({scan.body().get(), consts});
    if (fresh) at->second = hoisted(*scan.body(), consts);
    return at->second;
  }

  static void emit(const Node& scan, const Hoisted& hoisted, Copier& copy, Graph& out) {
    const Graph& body = *scan.body();
    const std::size_t consts = scan_shape(scan).consts;
    std::vector<Tensor> operands = copy.operands(scan);
    Copier outside(body, out);
    for (std::size_t i = 0; i < consts; ++i) outside.set(body.inputs()[i].value, operands[i]);
    for (NodeId n : hoisted.moved) outside.node(body.node(n));
    std::vector<Tensor> handed_in;
    for (ValueId v : hoisted.handed_in) handed_in.push_back(outside.get(v));
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(consts), handed_in.begin(),
                    handed_in.end());

    Node changed = scan;
    changed.set_attr("body", hoisted.body);
    changed.set_attr("num_consts", static_cast<std::int64_t>(consts + handed_in.size()));
    std::vector<Tensor> made = out.add_node_like(changed, operands);
    for (std::size_t i = 0; i < made.size(); ++i) copy.set(scan.outputs[i], made[i]);
  }

  const Graph& graph_;
  std::map<std::pair<const Graph*, std::size_t>, Hoisted> known_;  // by body and consts
};

}  // namespace

Graph hoist_from_scans(Graph graph) {
  return on_all_levels(std::move(graph), [](const Graph& level) { return Hoister(level).run(); });
}

}  // namespace lamina::passes
