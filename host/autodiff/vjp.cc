#include "autodiff/vjp.h"

#include <algorithm>
#include <utility>

#include "autodiff/custom_gradient.h"
#include "autodiff/scan_transpose.h"
#include "core/error.h"
#include "graph/call.h"
#include "graph/rewrite.h"
#include "ops/tensor.h"

namespace lamina::autodiff {
namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, std::span<const Tensor> wanted, const SavePolicy& save)
      : graph_(graph), scans_(save), active_(graph.values().size()) {
    for (const Tensor& t : wanted) active_[t.id] = true;
  }

  // Walks the nodes backwards from the end to `first`, given cotangents of their results.
  void run(NodeId first, std::span<const Tensor> results, std::span<const Tensor> cotangents) {
    NodeId end = static_cast<NodeId>(graph_.nodes().size());
    mark(first);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (cotangents[i]) accumulate(results[i].id, cotangents[i]);
    for (NodeId n = end; n-- > first;) visit(n);
  }

  Tensor cotangent(ValueId v) const { return v < cotangents_.size() ? cotangents_[v] : Tensor{}; }

 private:
  // Marks the values from node `first` on that depend on the wanted values: only these are walked.
  void mark(NodeId first) {
    active_.resize(graph_.values().size());
    cotangents_.resize(graph_.values().size());
    for (const Node& node : std::span(graph_.nodes()).subspan(first)) {
      if (node.op->def->zero_gradient) continue;
      bool any = false;
      for (ValueId v : node.inputs) any = any || (v != kNoValue && active_[v]);
      for (ValueId v : node.outputs)
        active_[v] = active_[v] || (any && is_floating(graph_.type(v).dtype));
    }
  }

  void visit(NodeId id) {
    const Node node = graph_.node(id);  // a copy, because the list grows below
    bool any = false, leads_on = false;
    for (ValueId v : node.outputs) any = any || (active_[v] && cotangents_[v]);
    for (ValueId v : node.inputs) leads_on = leads_on || (v != kNoValue && active_[v]);
    if (!any || !leads_on || node.op->def->zero_gradient) return;
    graph_.set_origin(node.origin);
    std::vector<Tensor> cts;
    for (ValueId v : node.outputs) {
      Tensor ct = cotangents_[v];
      // Only ops that merely move elements accept a cotangent that is wider than their value.
      if (ct && !node.op->def->layout_only) ct = ops::cast(ct, graph_.type(v).dtype);
      cts.push_back(ct);
    }
    std::vector<Tensor> grads = gradients(node, id, cts);
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (grads[i] && node.inputs[i] != kNoValue && active_[node.inputs[i]])
        accumulate(node.inputs[i], grads[i]);
  }

  std::vector<Tensor> gradients(const Node& node, NodeId id, std::span<const Tensor> cts) {
    if (node.op->def->facts.loops) {
      std::vector<bool> wanted;
      for (ValueId v : node.inputs) wanted.push_back(active_[v]);
      return scans_.transpose(graph_, id, cts, wanted);
    }
    if (has_own_gradient(node)) return custom_gradient(graph_, node, cts);
    std::vector<Tensor> inputs, outputs;
    std::vector<Type> types;
    for (ValueId v : node.inputs) inputs.push_back(v == kNoValue ? Tensor{} : graph_.tensor(v));
    for (ValueId v : node.outputs) outputs.push_back(graph_.tensor(v));
    for (ValueId v : node.inputs) types.push_back(v == kNoValue ? Type{} : graph_.type(v));
    std::vector<const Type*> type_pointers;
    for (std::size_t i = 0; i < types.size(); ++i)
      type_pointers.push_back(node.inputs[i] == kNoValue ? nullptr : &types[i]);
    Call call(*node.op, type_pointers, node.attrs, node.origin.get());
    LowerCall lower_call(call, inputs);
    if (node.op->def->vjp) return node.op->def->vjp(VjpCall(lower_call, outputs, cts));
    if (node.op->def->lower) return gradients_of_lower(node, lower_call, cts);
    throw InternalError(
        {"vjp", fmt::format("op '{}' has neither vjp nor lower", node.op->name), {}});
  }

  // Differentiates the op's lowering: its smaller ops are appended (again), then walked. Sums of
  // that walk are complete before they are added to others.
  std::vector<Tensor> gradients_of_lower(const Node& node, const LowerCall& call,
                                         std::span<const Tensor> cts) {
    NodeId first = static_cast<NodeId>(graph_.nodes().size());
    std::vector<Tensor> results = node.op->def->lower(call);
    std::vector<Tensor> others, out;
    for (ValueId v : node.inputs)
      others.push_back(v == kNoValue ? Tensor{} : std::exchange(cotangents_[v], {}));
    run(first, results, cts);
    // A value that is given as two inputs gets its cotangent once.
    for (ValueId v : node.inputs)
      out.push_back(v == kNoValue ? Tensor{} : std::exchange(cotangents_[v], {}));
    for (std::size_t i = 0; i < others.size(); ++i)
      if (others[i]) cotangents_[node.inputs[i]] = others[i];
    return out;
  }

  void accumulate(ValueId v, Tensor ct) {
    if (cotangents_.size() <= v) cotangents_.resize(graph_.values().size());
    Tensor& sum = cotangents_[v];
    if (!sum) {
      sum = ct;
      return;
    }
    DType wide = size_bytes(sum.dtype()) >= size_bytes(ct.dtype()) ? sum.dtype() : ct.dtype();
    sum = ops::add(ops::cast(sum, wide), ops::cast(ct, wide));
  }

  Graph& graph_;
  ScanTransposer scans_;
  std::vector<bool> active_;        // one per value that existed when the last walk began
  std::vector<Tensor> cotangents_;  // one per value, up to the last one with a cotangent
};

// Returns whether the node has the inputs (beside cotangents) and attributes of the forward node,
// by name.
bool is_gradient_of(const Node& node, const Node& forward) {
  for (std::size_t i = 0; i < forward.inputs.size(); ++i) {
    const auto same =
        std::ranges::find(node.op->inputs, forward.op->inputs[i].name, &OpInput::name);
    if (same == node.op->inputs.end() ||
        node.inputs[static_cast<std::size_t>(same - node.op->inputs.begin())] != forward.inputs[i])
      return false;
  }
  for (std::size_t i = 0; i < forward.attrs.size(); ++i) {
    int other = node.op->attr_index(forward.op->attrs[i].name);
    if (other >= 0 && !same_attr(forward.attrs[i], node.attrs[static_cast<std::size_t>(other)]))
      return false;
  }
  return true;
}

// If a node that computes gradients also computes results of the forward node (a loss), outputs use
// those, and dead-code removal deletes the forward node.
void take_byproducts_of_gradients(Graph& graph) {
  std::vector<GraphOutput> outputs = graph.outputs();
  for (GraphOutput& output : outputs) {
    const Value& value = graph.value(output.value);
    if (value.node == kNoNode) continue;
    const Node& forward = graph.node(value.node);
    const Byproducts& byproducts = forward.op->def->from_gradient;
    if (value.index >= byproducts.num_results) continue;
    for (const Node& node : graph.nodes())
      if (node.op->code == byproducts.op && is_gradient_of(node, forward))
        output.value = node.outputs[value.index];
  }
  graph.set_outputs(std::move(outputs));
}

}  // namespace

SavePolicy save_everything() {
  return SavePolicy([](std::string_view) { return true; });
}

std::vector<Tensor> vjp(Graph& graph, std::span<const Tensor> results,
                        std::span<const Tensor> seeds, std::span<const Tensor> wanted,
                        const SavePolicy& save) {
  auto origin = graph.origin();
  Differentiator d(graph, wanted, save);
  d.run(0, results, seeds);
  graph.set_origin(origin);
  std::vector<Tensor> out;
  for (const Tensor& t : wanted) out.push_back(d.cotangent(t.id));
  take_byproducts_of_gradients(graph);
  return out;
}

}  // namespace lamina::autodiff
