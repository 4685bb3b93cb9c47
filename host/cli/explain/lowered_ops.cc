#include "cli/explain/lowered_ops.h"

#include <fmt/format.h>

#include <vector>

#include "graph/call.h"
#include "ops/custom.h"
#include "runtime/program.h"

namespace lamina::cli {

void LoweredOps::add(const Node& node, const Graph& graph) {
  std::vector<Refusal> refusals;
  const KernelChoice* const choice = with_node_view(
      graph, node, [&](const NodeView& view) { return choose_kernel(backend_, view, &refusals); });
  if (choice) return;
  for (const Refusal& refusal : refusals) rows_.emplace(node.op->name, refusal.why);
}

// Ops that are lowered are in the graphs before that pass, and in none after it.
void LoweredOps::operator()(std::string_view pass, const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op->def->facts.loops) (*this)(pass, *node.body());
    if (ops::is_custom(*node.op)) add(node, graph);
  }
}

std::string LoweredOps::text() const {
  if (rows_.empty()) return "";
  std::string out = "== custom ops that are computed by their lowerings\n";
  for (const auto& [op, why] : rows_) out += fmt::format("{:<24} {}\n", op, why);
  return out + "\n";
}

}  // namespace lamina::cli
