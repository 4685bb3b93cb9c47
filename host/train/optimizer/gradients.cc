#include "train/optimizer/gradients.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/error.h"
#include "decoder/roles/roles.h"
#include "ops/tensor.h"
#include "passes/pipeline.h"

namespace lamina::train {

using decoder::Input;
using decoder::InputRole;
using decoder::ModelGraph;
using decoder::Output;

namespace {

// The gradient of a parameter that lies in a piece for each layer: only a scan can write to those,
// so its body is what casts.
Tensor cast_in_scan(Graph& graph, Tensor gradient, DType dtype) {
  if (gradient.dtype() == dtype) return gradient;
  const Value made = graph.value(gradient.id);
  LAMINA_ASSERT(made.node != kNoNode && graph.node(made.node).op->def->facts.loops);
  auto body = std::make_shared<Graph>(*graph.node(made.node).body());
  const GraphOutput result = body->outputs()[made.index];
  body->add_output(result.name, ops::cast(body->tensor(result.value), dtype));
  const Type type{dtype, gradient.shape(), {}};
  return graph.replace_body(made.node, std::move(body), {&type, 1}).front();
}

}  // namespace

ModelGraph add_gradients(ModelGraph loss, const decoder::ParameterTable& parameters,
                         const autodiff::SavePolicy& save) {
  ModelGraph out = std::move(loss);
  out.graph = passes::simplify(std::move(out.graph));
  Graph& graph = out.graph;
  std::vector<Tensor> losses, seeds;
  for (auto [role, scale] :
       {std::pair{Output::loss, Input::loss_scale}, std::pair{Output::z_loss, Input::z_loss_scale},
        std::pair{Output::uniform_loss, Input::uniform_scale},
        std::pair{Output::divergence, Input::divergence_scale},
        std::pair{Output::hidden_distance, Input::hidden_scale},
        std::pair{Output::aux_loss, Input::aux_scale},
        std::pair{Output::mtp_loss, Input::mtp_scale}})
    for (std::size_t o = 0; o < out.outputs.size(); ++o) {
      if (out.outputs[o].role != role) continue;
      losses.push_back(graph.tensor(graph.outputs()[o].value));
      seeds.push_back(
          graph.add_input(std::string(decoder::role_name(scale)), losses.back().type()));
      out.inputs.push_back({scale, {}, false, {}});
    }
  LAMINA_ASSERT(!losses.empty());

  std::vector<Tensor> wanted;
  std::vector<int> wanted_inputs;
  for (std::size_t i = 0; i < out.inputs.size(); ++i) {
    const InputRole& input = out.inputs[i];
    if (input.role != Input::parameter || !parameters[input.members.front()].learns()) continue;
    LAMINA_ASSERT(
        std::ranges::all_of(input.members, [&](int m) { return parameters[m].learns(); }));
    wanted.push_back(graph.tensor(graph.inputs()[i].value));
    wanted_inputs.push_back(static_cast<int>(i));
  }
  std::vector<Tensor> gradients = autodiff::vjp(graph, losses, seeds, wanted, save);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::size_t input = static_cast<std::size_t>(wanted_inputs[i]);
    DType wide = sum_dtype(wanted[i].dtype());
    Tensor gradient = gradients[i];
    if (!gradient) continue;
    gradient =
        out.inputs[input].stacked ? cast_in_scan(graph, gradient, wide) : ops::cast(gradient, wide);
    graph.add_output("gradient of " + graph.inputs()[input].name, gradient);
    out.outputs.push_back({.role = Output::gradient,
                           .input = wanted_inputs[i],
                           .stacked = out.inputs[input].stacked});
  }
  return out;
}

}  // namespace lamina::train
