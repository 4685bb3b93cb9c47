// optimizer.qk_clip: adds the largest logits of latent attention as a metric, and finds the
// matrices of its queries and keys.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "decoder/rewrite/lower_call.h"
#include "decoder/rewrite/rewriter.h"
#include "decoder/rewrite/rewrites.h"
#include "ops/latent_attention.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

namespace in = operand::latent_attention;

bool wanted(const TracePhase& phase) { return phase.max_logits; }

[[noreturn]] void refuse_clip(std::string what) {
  refuse_option("optimizer.qk_clip", std::move(what));
}

// True for latent attention whose keys come from one matrix.
bool has_key_matrix(const Node& node) {
  const OpFacts& facts = node.op->def->facts;
  return facts.attends == Attends::to_latents && facts.params[0].use == ParamUse::matrix;
}

// Returns the matrix of the product that a value is made from by splitting, rotating and joining
// columns; null for other values.
const registry::ParamDesc* matrix_of(const Recording& recording, ValueId id) {
  const Graph& graph = recording.graph();
  const Value& value = graph.value(id);
  if (value.node == kNoNode) return nullptr;
  if (const auto product = matrix_product(graph, id)) return recording.param(product->weight);
  const Node& node = graph.node(value.node);
  if (!node.op->def->facts.carries_rows) return nullptr;
  const registry::ParamDesc* first = matrix_of(recording, node.inputs[0]);
  if (node.op->inputs[0].variadic)
    for (ValueId part : node.inputs)
      if (matrix_of(recording, part) != first) return nullptr;
  return first;
}

// Refuses several attentions, or one in a custom op, because there is no place for their logits.
void refuse_others(Recording& recording, const BlockContext& context) {
  int count = 0;
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    if (!has_key_matrix(r.from().node(id))) return false;
    if (r.in_custom()) refuse_clip("a layer of this model has its attention in a custom op");
    if (++count > 1) refuse_clip("a layer of this model has two latent attentions");
    return false;
  });
}

void apply(Recording& recording, const BlockContext& context) {
  Rewriter r(recording, context);
  r.run([&](NodeId id) {
    const Node& node = r.from().node(id);
    if (!has_key_matrix(node)) return false;
    const registry::ParamDesc* query = matrix_of(recording, node.inputs[in::kQ]);
    const registry::ParamDesc* key = recording.param(node.inputs[in::kWKv]);
    if (!query)
      refuse_clip(
          "scales rows of a matrix whose product the queries are; here they are made otherwise");
    if (!key)
      refuse_clip(
          "scales rows of the matrix that makes keys and values; here they have several, or none "
          "for themselves");
    r.copy(id, r.operands(id));
    const Node copy = r.graph().nodes().back();
    with_lower_call(r.graph(), copy, [&](const LowerCall& c) {
      const std::int64_t heads = c.type(in::kQ).dim(2);
      const Tensor top = ops::attention_max({.q = c.in(in::kQ),
                                             .k = ops::expand_latent(c).k,
                                             .mask = c.in(in::kMask),
                                             .segments = c.in(in::kSegments),
                                             .key_segments = c.in(in::kSegments)},
                                            {.scale = ops::latent_scale(c),
                                             .soft_cap = c.f("soft_cap"),
                                             .causal = c.i("causal") != 0});
      recording.block.query_key = {query->name,
                                   key->name,
                                   heads,
                                   c.i("nope_dim"),
                                   c.type(in::kQ).dim(3),
                                   c.type(in::kWKv).dim(0) / heads};
      if (context.phase.aux)
        r.add_aux({.kind = registry::AuxDesc::Kind::metric,
                   .name = kMaxLogits,
                   .value = {},
                   .weight_key = {},
                   .reduce = Reduce::max,
                   .other = {}},
                  top);
    });
    return true;
  });
}

}  // namespace

constinit const Rewrite kQkClip = {"qk-clip", wanted, refuse_others, apply};

}  // namespace lamina::decoder
