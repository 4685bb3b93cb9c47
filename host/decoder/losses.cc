#include "decoder/losses.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "decoder/graph/head.h"
#include "decoder/graph/model_builder.h"
#include "decoder/mtp/mtp.h"
#include "decoder/roles/roles.h"

namespace lamina::decoder {
namespace {

// Terms of next tokens: cross-entropies, and what a teacher adds.
void add_token_losses(ModelBuilder& b, Tensor x, std::vector<LossSum>& out) {
  GraphBuilder& to = b.to;
  const TracePhase& phase = to.phase();
  Tensor labels = to.host_input(Input::labels);
  const TokenLosses sums = token_losses(to, x, labels);
  const auto wants = [&](std::string_view name) {
    return std::ranges::find(phase.losses, name) != phase.losses.end();
  };
  out.push_back({{.name = "loss", .report = LossReport::none}, sums.loss});
  out.push_back({{.name = "z_loss"}, sums.z_loss});
  if (wants("uniform_loss"))
    out.push_back({{.name = "uniform_loss", .report = LossReport::none}, sums.uniform_loss});
  if (phase.token_losses) to.add_output(Output::token_losses, sums.token_losses);
  if (phase.teacher.any)
    out.push_back({{.name = "kl", .report = LossReport::progress}, divergence(to, x, labels)});
  if (!phase.teacher.layers.empty())
    out.push_back({{.name = "hidden", .report = LossReport::progress},
                   hidden_distance(to, labels, b.layer_outputs())});
}

// The scalar that was reshaped to [1], or x reshaped to a scalar.
Tensor as_scalar(Tensor x) {
  const NodeId made_by = x.graph->value(x.id).node;
  if (made_by != kNoNode) {
    const Node& node = x.graph->node(made_by);
    if (node.op->def->layout_only && node.inputs.size() == 1 &&
        x.graph->type(node.inputs[0]).shape.ndim() == 0)
      return x.graph->tensor(node.inputs[0]);
  }
  return ops::reshape(x, {});
}

}  // namespace

void add_losses(ModelBuilder& b, Tensor hidden) {
  GraphBuilder& to = b.to;
  const TracePhase& phase = to.phase();
  std::vector<LossSum> sums;
  Tensor mtp;
  if (to.parts().options.head.no_loss && phase.training) {
    Tensor nothing = ops::constant(to.graph(), {DType::f32, {}, {}}, 0);
    sums.push_back({{.name = "loss", .report = LossReport::none}, nothing});
    sums.push_back({{.name = "z_loss"}, nothing});
  } else {
    Tensor x = for_head(to, final_norm(to, hidden));
    add_token_losses(b, x, sums);
    LAMINA_ASSERT(!(phase.mtp && phase.mtp_agreement));
    const bool predicts = to.parts().options.mtp.depth > 0;
    if (phase.mtp && predicts) mtp = mtp_loss(b, hidden);
    if (phase.mtp_agreement && predicts) add_mtp_agreement(b, hidden, x);
  }
  if (phase.aux)
    if (Tensor aux = b.aux.add_outputs(to))
      sums.push_back({{.name = "aux_loss", .count = LossCount::microbatches}, aux});
  if (mtp) sums.push_back({{.name = "mtp_loss", .count = LossCount::mtp_labels}, mtp});
  set_losses(to.out(), sums);
}

DType losses_dtype(const std::vector<LossSum>& sums) {
  const bool is_double =
      std::ranges::any_of(sums, [](const LossSum& s) { return s.sum.dtype() == DType::f64; });
  return is_double ? DType::f64 : DType::f32;
}

void set_losses(ModelGraph& graph, const std::vector<LossSum>& sums) {
  LAMINA_ASSERT(!sums.empty() && graph.losses.empty());
  std::vector<Tensor> elements;
  for (const LossSum& s : sums) {
    elements.push_back(ops::reshape(ops::cast(s.sum, losses_dtype(sums)), Shape{{1}}));
    graph.losses.push_back(s.term);
  }
  graph.graph.add_output(std::string(role_name(Output::losses)), ops::joined(elements));
  graph.outputs.push_back({.role = Output::losses});
}

// Elements are read from the inputs of the node that joins them: a term that is not used needs no
// computation, and vjp() sees the node that computes a sum.
std::vector<LossSum> take_losses(ModelGraph& graph) {
  const Tensor whole = take_output(graph, Output::losses);
  const NodeId made_by = graph.graph.value(whole.id).node;
  std::vector<Tensor> elements;
  for (std::size_t i = 0; i < graph.losses.size(); ++i) {
    const bool is_joined =
        graph.losses.size() > 1 && made_by != kNoNode &&
        graph.graph.node(made_by).inputs.size() == graph.losses.size() &&
        graph.graph.type(graph.graph.node(made_by).inputs[i]).num_elements() == 1;
    elements.push_back(is_joined ? graph.graph.tensor(graph.graph.node(made_by).inputs[i])
                                 : ops::slice(whole, 0, static_cast<std::int64_t>(i), 1));
  }
  std::vector<LossSum> out;
  for (std::size_t i = 0; i < elements.size(); ++i)
    out.push_back({graph.losses[i], as_scalar(elements[i])});
  graph.losses.clear();
  return out;
}

Tensor take_output(ModelGraph& graph, Output role) {
  std::vector<GraphOutput> outputs = graph.graph.outputs();
  const auto at = std::ranges::find(graph.outputs, role, &OutputRole::role);
  LAMINA_ASSERT(at != graph.outputs.end());
  const auto index = at - graph.outputs.begin();
  const ValueId value = outputs[static_cast<std::size_t>(index)].value;
  outputs.erase(outputs.begin() + index);
  graph.outputs.erase(at);
  graph.graph.set_outputs(std::move(outputs));
  return graph.graph.tensor(value);
}

}  // namespace lamina::decoder
