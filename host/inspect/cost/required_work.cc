#include "inspect/cost/required_work.h"

#include <algorithm>

#include "graph/call.h"
#include "graph/scan_shape.h"
#include "inspect/cost/expert_share.h"
#include "ops/custom.h"
#include "ops/state_layout.h"

namespace lamina::inspect {
namespace {

using decoder::Input;

// Bytes read from a graph input: all of it, or the rows that are looked up if it is only looked up.
double read_bytes(const Graph& graph, ValueId input) {
  const auto all = static_cast<double>(graph.type(input).bytes());
  double looked_up = 0;
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != input) continue;
      const OpCost& cost = node.op->def->cost;
      if (node.op->def->facts.loops) {
        const Graph& body = *node.body();
        looked_up +=
            static_cast<double>(node.int_attr("times")) * read_bytes(body, body.inputs()[i].value);
      } else if (!cost.flops && cost.share_read) {
        looked_up += all * with_node_view(graph, node, [&](const NodeView& view) {
                       return cost.share_read(view, static_cast<int>(i));
                     });
      } else {
        return all;
      }
    }
  return std::min(looked_up, all);
}

// The work of the backward pass; also computes the outputs that depend on learned inputs.
double backward_flops(const Graph& graph, const std::vector<bool>& learns,
                      std::vector<bool>& outputs) {
  std::vector<bool> depends(graph.values().size());
  for (std::size_t i = 0; i < learns.size(); ++i) depends[graph.inputs()[i].value] = learns[i];
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    std::vector<bool> operands;
    for (ValueId v : node.inputs) operands.push_back(v != kNoValue && depends[v]);
    std::vector<bool> results(node.outputs.size(), std::ranges::count(operands, true) > 0 &&
                                                       !node.op->def->zero_gradient);
    if (node.op->def->facts.loops) {
      const auto [consts, carries] = scan_shape(node);
      // The next layer depends on the parameters of the one before it. Nearly all layers do.
      double layer = 0;
      for (bool settled = false; !settled;) {
        settled = true;
        layer = backward_flops(*node.body(), operands, results);
        for (std::size_t k = 0; k < carries; ++k)
          if (results[k] && !operands[consts + k]) operands[consts + k] = true, settled = false;
      }
      flops += static_cast<double>(node.int_attr("times")) * layer;
    } else if (results[0]) {
      const bool is_product = node.op->def->facts.product != Product::none;
      const std::ptrdiff_t parts = is_product ? operands[0] + operands[1] : std::ptrdiff_t{2};
      flops += static_cast<double>(parts) * required_flops(graph, node, 0);
    }
    for (std::size_t i = 0; i < results.size(); ++i) depends[node.outputs[i]] = results[i];
  }
  outputs.clear();
  for (const GraphOutput& output : graph.outputs()) outputs.push_back(depends[output.value]);
  return flops;
}

}  // namespace

double required_backward_flops(const Graph& graph, const std::vector<bool>& learns) {
  std::vector<bool> outputs;
  return backward_flops(graph, learns, outputs);
}

ProductOperands operands_of(const Graph& graph, const Node& node) {
  ProductOperands out{graph.type(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).dtype};
  for (const ValueId v : node.inputs)
    if (v != kNoValue && graph.type(v).storage) out.storage = graph.type(v).storage;
  return out;
}

std::vector<ProductWork> flops_by_operands(const Graph& graph, std::int64_t start) {
  std::vector<ProductWork> out;
  const auto add = [&](const ProductOperands& operands, double flops) {
    auto at = std::ranges::find(out, operands, &ProductWork::operands);
    if (at == out.end()) at = out.insert(at, {operands});
    at->flops += flops;
  };
  for (const Node& node : graph.nodes()) {
    if (node.op->def->facts.loops) {
      const auto times = static_cast<double>(node.int_attr("times"));
      for (const ProductWork& work : flops_by_operands(*node.body(), start))
        add(work.operands, times * work.flops);
    } else if (const double flops = required_flops(graph, node, start); flops > 0) {
      add(operands_of(graph, node), flops);
    }
  }
  return out;
}

double moved_bytes(const Graph& graph, const Node& node) {
  const OpCost& cost = node.op->def->cost;
  double bytes = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    double share = 1;
    if (cost.share_read)
      share = with_node_view(graph, node, [&](const NodeView& view) {
        return cost.share_read(view, static_cast<int>(i));
      });
    bytes += share * static_cast<double>(graph.type(node.inputs[i]).bytes());
  }
  for (ValueId v : node.outputs) bytes += static_cast<double>(graph.type(v).bytes());
  return bytes;
}

double required_read_bytes(const decoder::ModelGraph& graph,
                           const std::vector<decoder::StateTensor>& states, double length) {
  double bytes = 0;
  std::vector<double> shares = used_shares(graph.graph);
  const Graph plain = ops::inline_custom(graph.graph);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].role == Input::parameter)
      bytes += shares[i] * read_bytes(plain, plain.inputs()[i].value);
  for (const decoder::StateTensor& state : states) {
    double used = 1;
    if (ops::layout_of(state.kind) == ops::StateLayout::slots) {
      double slots = static_cast<double>(std::max<std::int64_t>(state.type.dim(1), 1));
      used = std::min(length, slots) / slots;
    }
    bytes += static_cast<double>(state.bytes()) * used;
  }
  return bytes;
}

}  // namespace lamina::inspect
