#include "decoder/trace/latent_logits.h"

#include <algorithm>

#include "decoder/trace/host_options.h"
#include "decoder/trace/lower_call.h"
#include "decoder/trace/refused_option.h"
#include "ops/latent_attention.h"
#include "ops/op_code.h"
#include "ops/operands.h"
#include "ops/tensor.h"

namespace lamina::decoder {
namespace {

using Params = std::vector<BlockGraph::Param>;
namespace in = operand::latent_attention;

// The parameter that a value is; null for another value.
const registry::ParamDesc* param_of(const Graph& graph, const Params& params, ValueId id) {
  const Value& value = graph.value(id);
  if (value.node != kNoNode) return nullptr;
  const auto found =
      std::ranges::find(params, static_cast<int>(value.index), &BlockGraph::Param::input);
  return found == params.end() ? nullptr : &found->desc;
}

// Ops that leave each row of a matrix what it makes: they split heads, and rotate inside them.
bool keeps_rows(OpCode code) {
  switch (code) {
    case OpCode::reshape:
    case OpCode::slice:
    case OpCode::concat:
    case OpCode::rope:
    case OpCode::cast:
      return true;
    default:
      return false;
  }
}

// The matrix whose product a value is, however its columns were split, rotated and joined again;
// null where it is anything else.
const registry::ParamDesc* matrix_of(const Graph& graph, const Params& params, ValueId id) {
  const Value& value = graph.value(id);
  if (value.node == kNoNode) return nullptr;
  const Node& node = graph.node(value.node);
  if (node.op->code == OpCode::linear) return param_of(graph, params, node.inputs[1]);
  if (!keeps_rows(node.op->code)) return nullptr;
  const registry::ParamDesc* first = matrix_of(graph, params, node.inputs[0]);
  if (node.op->code == OpCode::concat)
    for (ValueId part : node.inputs)
      if (matrix_of(graph, params, part) != first) return nullptr;
  return first;
}

[[noreturn]] void refuse(const std::string& what) {
  throw RefusedOption{{"optimizer.qk_clip", what, {"leave it out"}}};
}

}  // namespace

LatentLogits latent_logits(Graph& graph, Tensor result, const Params& params) {
  const Node node = graph.node(graph.value(result.id).node);
  LAMINA_ASSERT(node.op->code == OpCode::latent_attention);
  const registry::ParamDesc* query = matrix_of(graph, params, node.inputs[in::kQ]);
  const registry::ParamDesc* key = param_of(graph, params, node.inputs[in::kWKv]);
  if (!query)
    refuse("scales rows of a matrix whose product the queries are; here they are made otherwise");
  if (!key)
    refuse(
        "scales rows of the matrix that makes keys and values; here they have several, or none "
        "of their own");
  return with_lower_call(graph, node, [&](const LowerCall& c) {
    const std::int64_t heads = c.type(in::kQ).dim(2), nope = c.i("nope_dim");
    const Tensor top = ops::attention_max(
        {.q = c.in(in::kQ),
         .k = ops::expand_latent(c).k,
         .mask = c.in(in::kMask),
         .segments = c.in(in::kSegments),
         .key_segments = c.in(in::kSegments)},
        {.scale = ops::latent_scale(c), .soft_cap = c.f("soft_cap"), .causal = c.i("causal") != 0});
    return LatentLogits{top,
                        {query->name, key->name, heads, nope, c.type(in::kQ).dim(3),
                         c.type(in::kWKv).dim(0) / heads}};
  });
}

}  // namespace lamina::decoder
