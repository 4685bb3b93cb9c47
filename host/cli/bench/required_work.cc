#include "cli/bench/required_work.h"

#include <algorithm>

#include "runtime/program.h"

namespace lamina::cli {
namespace {

using decoder::Role;

double elements(const Type& type) { return static_cast<double>(type.shape.num_elements()); }

// Pairs (query, key) of one row that see each other when queries are at start, start + 1, ...
double visible_pairs(const Call& c, std::int64_t start) {
  std::int64_t queries = c.type(0).dim(1);
  bool causal = c.i("causal") || c.i("window");
  double pairs = 0;
  for (std::int64_t t = start; t < start + queries; ++t) {
    std::int64_t first = 0, last = causal ? t : start + queries - 1;
    if (c.i("window")) first = std::max(first, t - c.i("window") + 1);
    if (c.i("chunk")) {
      first = std::max(first, t / c.i("chunk") * c.i("chunk"));
      last = std::min(last, (t / c.i("chunk") + 1) * c.i("chunk") - 1);
    }
    pairs += static_cast<double>(last - first + 1);
  }
  return pairs;
}

double flops_of(const NodeView& node, std::int64_t start) {
  const std::string& op = node.op().name;
  if (op == "linear" || op == "linear_group") {
    double outputs = 0;
    for (int i = 0; i < node.num_outputs(); ++i) outputs += elements(node.out_type(i));
    return 2 * outputs * static_cast<double>(node.type(0).dim(-1));
  }
  if (op == "matmul")
    return 2 * elements(node.out_type()) *
           static_cast<double>(node.type(0).dim(node.i("transpose_a") ? -2 : -1));
  if (op == "cross_entropy")
    return 2 * elements(node.type(0)) * static_cast<double>(node.type(1).dim(0));
  if (op == "attention") {
    const Type& q = node.type(0);
    double per_pair = 2 * static_cast<double>(q.dim(3) + node.type(2).dim(3));
    return static_cast<double>(q.dim(0) * q.dim(2)) * per_pair * visible_pairs(node, start);
  }
  if (op == "scan")
    return static_cast<double>(node.i("times")) * required_flops(*node.body("body"), start);
  return 0;
}

// What is read of a graph input: all of it, or if it is only looked up the rows that are.
double read_bytes(const Graph& graph, ValueId input) {
  double looked_up = 0;
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != input) continue;
      if (node.op->name != "embedding" || i != 0)
        return static_cast<double>(graph.type(input).bytes());
      looked_up += static_cast<double>(graph.type(node.outputs[0]).bytes());
    }
  return looked_up;
}

}  // namespace

double required_flops(const Graph& graph, std::int64_t start) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    flops +=
        with_node_view(graph, node, [&](const NodeView& view) { return flops_of(view, start); });
  return flops;
}

double required_read_bytes(const decoder::ModelGraph& graph,
                           const std::vector<decoder::StateTensor>& states, double length) {
  double bytes = 0;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].role == Role::parameter)
      bytes += read_bytes(graph.graph, graph.graph.inputs()[i].value);
  for (const decoder::StateTensor& state : states) {
    double slots = static_cast<double>(std::max<std::int64_t>(state.type.dim(1), 1));
    bytes += static_cast<double>(state.bytes()) * std::min(length, slots) / slots;
  }
  return bytes;
}

}  // namespace lamina::cli
