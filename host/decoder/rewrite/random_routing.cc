// use_random_routing: in training, routers choose experts at random with equal probability, and
// keep their scores for the chosen experts.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "config/model_keys.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

namespace in = operand::top_k;
namespace out = result::top_k;

bool wanted(const TracePhase& phase) { return phase.options.random_routing; }

// True if x depends on a router, a matrix with one row per choice. Groups of experts have fewer
// choices.
bool comes_from_router(const Recording& recording, ValueId x) {
  const Graph& graph = recording.graph();
  const std::int64_t choices = graph.type(x).dim(-1);
  std::vector<ValueId> open = {x};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == kNoValue || !seen.insert(value).second) continue;
    const registry::ParamDesc* param = recording.param(value);
    if (param && param->role == registry::Role::router && param->shape.ndim() == 2 &&
        param->shape[0] == choices)
      return true;
    if (const NodeId node = graph.value(value).node; node != kNoNode)
      std::ranges::copy(graph.node(node).inputs, std::back_inserter(open));
    for (const Recording::Scope& scope : recording.scopes)
      if (std::ranges::find(scope.outside, value) != scope.outside.end()) {
        std::ranges::copy(scope.inputs, std::back_inserter(open));
        std::ranges::copy(scope.last, std::back_inserter(open));
      }
  }
  return false;
}

void apply(Recording& recording, const BlockContext& context) {
  if (!context.phase.training) return;
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    if (!chooses_experts(r.recording(), id)) return false;
    if (r.in_region() || r.in_custom())
      refuse_option(fmt::format("model.{}", config::kRandomRouting),
                    "a layer of this model has its router where nothing can be drawn");
    const Node& node = r.from().node(id);
    const Tensor x = r.get(node.inputs[in::kX]);
    const Tensor drawn[] = {r.random(x.shape())};
    const Tensor ids = r.graph().add_node_like(node, drawn)[out::kIds];
    r.set(node.outputs[out::kValues], ops::take_along(x, ids));
    r.set(node.outputs[out::kIds], ids);
    return true;
  });
}

}  // namespace

bool chooses_experts(const Recording& recording, NodeId id) {
  const Node& node = recording.graph().node(id);
  return node.op->def->facts.chooses && comes_from_router(recording, node.inputs[in::kX]);
}

constinit const Rewrite kRandomRouting = {"random routing", wanted, apply};

}  // namespace lamina::decoder
