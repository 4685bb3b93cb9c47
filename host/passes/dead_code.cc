#include "passes/dead_code.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "graph/rewrite.h"
#include "graph/scan_shape.h"

namespace lamina::passes {
namespace {

// The remaining parts of a scan: its body, operands and results.
struct Narrowed {
  std::shared_ptr<const Graph> body;
  std::vector<bool> operands, results;
};

class DeadCode {
 public:
  // Returns `graph` with these outputs and without unread inputs that may be removed; nothing if
  // that is the whole graph. Sets `kept` to the inputs that stay.
  std::optional<Graph> remove(const Graph& graph, const std::vector<GraphOutput>& outputs,
                              const std::vector<bool>& may_go, std::vector<bool>* kept) {
    std::vector<bool> used(graph.values().size()), alive(graph.nodes().size());
    std::map<NodeId, Narrowed> scans;
    bool changed = outputs.size() < graph.outputs().size();
    for (const GraphOutput& output : outputs) {
      used[output.value] = true;
      if (output.alias_input >= 0)
        used[graph.inputs()[static_cast<std::size_t>(output.alias_input)].value] = true;
    }
    for (NodeId n = static_cast<NodeId>(graph.nodes().size()); n-- > 0;) {
      const Node& node = graph.node(n);
      for (ValueId v : node.outputs) alive[n] = alive[n] || used[v];
      changed = changed || !alive[n];
      if (!alive[n]) continue;
      const Narrowed* scan = nullptr;
      if (node.op->def->facts.loops) scan = &(scans[n] = narrowed(node, used));
      if (scan) changed = changed || scan->body != node.body();
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNoValue && (!scan || scan->operands[i])) used[node.inputs[i]] = true;
    }
    kept->resize(graph.inputs().size());
    for (std::size_t i = 0; i < kept->size(); ++i) {
      (*kept)[i] = !may_go[i] || used[graph.inputs()[i].value];
      changed = changed || !(*kept)[i];
    }
    if (!changed) return std::nullopt;

    Graph out;
    Copier copy(graph, out);
    std::vector<int> place(graph.inputs().size(), -1);
    for (std::size_t i = 0; i < place.size(); ++i) {
      if (!(*kept)[i]) continue;
      const GraphInput& input = graph.inputs()[i];
      place[i] = static_cast<int>(out.inputs().size());
      copy.set(input.value, out.add_input(input.name, graph.type(input.value)));
    }
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
      if (!alive[n]) continue;
      auto scan = scans.find(n);
      if (scan == scans.end() || scan->second.body == graph.node(n).body())
        copy.node(graph.node(n));
      else
        emit(graph.node(n), scan->second, copy, out);
    }
    for (const GraphOutput& output : outputs)
      out.add_output(
          output.name, copy.get(output.value),
          output.alias_input < 0 ? -1 : place[static_cast<std::size_t>(output.alias_input)]);
    return out;
  }

 private:
  // Returns the scan without unread ys, and without consts and xs that its body then no longer
  // reads. A y that is written over an x is state and stays.
  const Narrowed& narrowed(const Node& scan, const std::vector<bool>& used) {
    const std::shared_ptr<const Graph>& body = scan.body();
    const ScanShape shape = scan_shape(scan);
    std::vector<bool> results;
    std::vector<GraphOutput> outputs;
    for (std::size_t i = 0; i < scan.outputs.size(); ++i) {
      const GraphOutput& output = body->outputs()[i];
      results.push_back(!shape.is_stacked(i) || used[scan.outputs[i]] || output.alias_input >= 0);
      if (results.back()) outputs.push_back(output);
    }
    auto [at, fresh] = known_.try_emplace({body.get(), shape, results});
    Narrowed& out = at->second;
    if (!fresh) return out;
    std::vector<bool> may_go(body->inputs().size(), true);
    for (std::size_t i = shape.consts; i < shape.first_x(); ++i) may_go[i] = false;
    std::optional<Graph> made = remove(*body, outputs, may_go, &out.operands);
    out.body = made ? std::make_shared<const Graph>(*std::move(made)) : body;
    out.results = std::move(results);
    return out;
  }

  static void emit(const Node& scan, const Narrowed& to, Copier& copy, Graph& out) {
    const std::size_t consts = scan_shape(scan).consts;
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < scan.inputs.size(); ++i)
      if (to.operands[i]) operands.push_back(copy.get(scan.inputs[i]));
    Node changed = scan;
    changed.set_attr("body", to.body);
    changed.set_attr(
        "num_consts",
        static_cast<std::int64_t>(std::count(
            to.operands.begin(), to.operands.begin() + static_cast<std::ptrdiff_t>(consts), true)));
    std::vector<Tensor> made = out.add_node_like(changed, operands);
    for (std::size_t i = 0, next = 0; i < scan.outputs.size(); ++i)
      if (to.results[i]) copy.set(scan.outputs[i], made[next++]);
  }

  // By body, shape and the remaining results.
  std::map<std::tuple<const Graph*, ScanShape, std::vector<bool>>, Narrowed> known_;
};

}  // namespace

Graph remove_dead_code(Graph graph) {
  std::vector<bool> may_go(graph.inputs().size(), false), kept;
  std::optional<Graph> made = DeadCode().remove(graph, graph.outputs(), may_go, &kept);
  return made ? *std::move(made) : std::move(graph);
}

}  // namespace lamina::passes
