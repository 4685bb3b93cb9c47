#include "train/optimizer/gradients.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/error.h"
#include "decoder/losses.h"
#include "decoder/roles/roles.h"
#include "ops/tensor.h"
#include "passes/pipeline.h"

namespace lamina::train {

using decoder::Input;
using decoder::InputRole;
using decoder::LossSum;
using decoder::ModelGraph;
using decoder::Output;

namespace {

// Casts the gradient of a parameter that is stored in one piece per layer. Only a scan can write
// these pieces, so the cast is added to its body.
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
  // Each term is an output while gradients are made: vjp() takes outputs from gradient nodes that
  // compute them as well.
  std::vector<LossSum> terms = decoder::take_losses(out);
  for (const LossSum& term : terms) out.graph.add_output(term.term.name, term.sum);
  out.graph = passes::simplify(std::move(out.graph));
  Graph& graph = out.graph;
  const std::size_t first_term = graph.outputs().size() - terms.size();
  const auto read_terms = [&] {
    for (std::size_t i = 0; i < terms.size(); ++i)
      terms[i].sum = graph.tensor(graph.outputs()[first_term + i].value);
  };
  read_terms();
  const Type scales_type{decoder::losses_dtype(terms), {std::ssize(terms)}, {}};
  const Tensor scales =
      graph.add_input(std::string(decoder::role_name(Input::loss_scales)), scales_type);
  out.inputs.push_back({Input::loss_scales, {}, false, {}});
  std::vector<Tensor> losses, seeds;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    losses.push_back(terms[i].sum);
    const Tensor scale = ops::slice(scales, 0, static_cast<std::int64_t>(i), 1);
    seeds.push_back(ops::cast(ops::reshape(scale, {}), terms[i].sum.dtype()));
  }

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
  read_terms();
  std::vector<GraphOutput> outputs = graph.outputs();
  outputs.resize(first_term);
  graph.set_outputs(std::move(outputs));
  decoder::set_losses(out, terms);
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
