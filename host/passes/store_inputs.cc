#include "passes/store_inputs.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/error.h"
#include "graph/call.h"
#include "graph/rewrite.h"
#include "graph/scan_shape.h"
#include "ops/tensor.h"

namespace lamina::passes {
namespace {

using Storages = std::vector<const formats::BlockFormat*>;

class Uses {
 public:
  std::vector<bool> storable(const Graph& graph) {
    std::vector<bool> values(graph.values().size(), true);
    for (const GraphOutput& output : graph.outputs()) values[output.value] = false;
    for (const Node& node : graph.nodes())
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (const ValueId v = node.inputs[i]; v != kNoValue && graph.value(v).node == kNoNode)
          values[v] = values[v] && takes(graph, node, i);
    std::vector<bool> out;
    for (const GraphInput& input : graph.inputs()) out.push_back(values[input.value]);
    return out;
  }

 private:
  bool takes(const Graph& graph, const Node& node, std::size_t operand) {
    const OpDef& def = *node.op->def;
    if (def.facts.loops)
      return !scan_shape(node).is_carried(operand) && of_body(node.body())[operand];
    return def.takes_stored && with_node_view(graph, node, [&](const NodeView& view) {
             return def.takes_stored(view, static_cast<int>(operand));
           });
  }

  const std::vector<bool>& of_body(const std::shared_ptr<const Graph>& body) {
    const auto [at, is_new] = bodies_.try_emplace(body.get());
    if (is_new) at->second = storable(*body);
    return at->second;
  }

  std::map<const Graph*, std::vector<bool>> bodies_;
};

class Storer {
 public:
  Graph run(const Graph& graph, std::span<const formats::BlockFormat* const> storages) {
    Graph out;
    Copier copy(graph, out);
    for (std::size_t i = 0; i < storages.size(); ++i) {
      const GraphInput& input = graph.inputs()[i];
      copy.set(input.value,
               out.add_input(input.name, graph.type(input.value).stored_as(storages[i])));
    }
    std::map<ValueId, Tensor> widened;  // by stored value
    for (const Node& node : graph.nodes()) {
      std::vector<Tensor> operands = copy.operands(node);
      if (std::ranges::none_of(operands, is_stored)) {
        copy.node(node);
        continue;
      }
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!is_stored(operands[i]) || takes(node, operands, i)) continue;
        Tensor& plain = widened[operands[i].id];
        if (!plain) plain = ops::widen_stored(operands[i]);
        operands[i] = plain;
      }
      const std::vector<Tensor> made =
          out.add_node_like(with_stored_body(node, operands), operands);
      for (std::size_t i = 0; i < made.size(); ++i) {
        copy.set(node.outputs[i], made[i]);
        out.set_axes(made[i].id, graph.type(node.outputs[i]).axes);
      }
    }
    copy.outputs();
    return out;
  }

 private:
  static bool is_stored(const Tensor& tensor) { return tensor && tensor.type().storage; }

  static bool takes(const Node& node, const std::vector<Tensor>& operands, std::size_t operand) {
    const OpDef& def = *node.op->def;
    if (def.facts.loops) return !scan_shape(node).is_carried(operand);
    if (!def.takes_stored) return false;
    std::vector<const Type*> types;
    for (const Tensor& tensor : operands) types.push_back(tensor ? &tensor.type() : nullptr);
    return def.takes_stored(Call(*node.op, types, node.attrs, node.origin.get()),
                            static_cast<int>(operand));
  }

  // Returns a scan with the body for the storage of its operands; other nodes unchanged.
  Node with_stored_body(const Node& node, const std::vector<Tensor>& operands) {
    Node out = node;
    if (!node.op->def->facts.loops) return out;
    Storages storages;
    for (const Tensor& operand : operands) storages.push_back(operand.type().storage);
    auto& body = bodies_[{node.body().get(), storages}];
    if (!body) body = std::make_shared<const Graph>(run(*node.body(), storages));
    out.set_attr("body", body);
    return out;
  }

  std::map<std::pair<const Graph*, Storages>, std::shared_ptr<const Graph>> bodies_;
};

}  // namespace

std::vector<bool> storable_inputs(const Graph& graph) { return Uses().storable(graph); }

Graph store_inputs(const Graph& graph, std::span<const formats::BlockFormat* const> storages) {
  LAMINA_ASSERT(storages.size() == graph.inputs().size());
  return Storer().run(graph, storages);
}

}  // namespace lamina::passes
