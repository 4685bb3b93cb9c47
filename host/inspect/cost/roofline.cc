#include "inspect/cost/roofline.h"

#include <algorithm>
#include <map>

#include "graph/call.h"

namespace lamina::inspect {
namespace {

using PredictedByOp = std::map<std::string, PredictedOp>;

bool is_view(const Graph& graph, const Node& node) {
  return node.op->def->view && with_node_view(graph, node, [&](const NodeView& view) {
           return node.op->def->view(view).has_value();
         });
}

void add_node(PredictedByOp& ops, const Graph& graph, const Node& node, const Roofline& limits,
              std::int64_t start, std::int64_t times) {
  const double compute =
      required_flops(graph, node, start) / limits.flops_per_second(operands_of(graph, node));
  const double move = moved_bytes(graph, node) / limits.bytes_per_second;
  const double seconds = static_cast<double>(times) * std::max(compute, move);
  PredictedOp& op = ops[node.op->name];
  op.op = node.op->name;
  op.count += times;
  op.seconds += seconds;
  if (compute > move) op.compute_seconds += seconds;
}

void add_program(PredictedByOp& ops, const Program& program, const Roofline& limits,
                 std::int64_t start, std::int64_t times) {
  const Graph& graph = program.graph();
  for (const Node& node : graph.nodes())
    if (!node.op->def->facts.loops && !is_view(graph, node))
      add_node(ops, graph, node, limits, start, times);
  for (const Program::Body& body : program.bodies())
    add_program(ops, *body.program, limits, start, times * body.times);
}

}  // namespace

PredictedTime predict(const Program& program, const Roofline& limits, std::int64_t start) {
  PredictedByOp ops;
  add_program(ops, program, limits, start, 1);
  PredictedTime out;
  for (const auto& [name, op] : ops) {
    out.seconds += op.seconds;
    out.ops.push_back(op);
  }
  std::ranges::stable_sort(out.ops, std::greater{}, &PredictedOp::seconds);
  return out;
}

}  // namespace lamina::inspect
