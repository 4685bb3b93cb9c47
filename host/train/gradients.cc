#include "train/gradients.h"

#include "core/error.h"
#include "ops/tensor.h"
#include "passes/pipeline.h"

namespace lamina::train {

using decoder::InputRole;
using decoder::ModelGraph;
using decoder::Role;

namespace {

void check_tags(const config::RunConfig& c, const decoder::Model& model) {
  if (c.train.remat_tags.empty()) return;
  const decoder::ModelGraph loss = model.loss_graph({.batch = c.train.microbatch_size,
                                                     .tokens = c.data.sequence_length,
                                                     .dtype = c.train.dtype,
                                                     .segments = true,
                                                     .training = true,
                                                     .aux = true,
                                                     .mtp = true});
  const std::set<std::string> named = autodiff::tags_in(loss.graph);
  for (const auto& [tag, residency] : c.train.remat_tags)
    if (tag != autodiff::kLayerInputTag && !named.contains(tag))
      throw UserError(ExitCode::usage,
                      {"train.remat_tags." + tag,
                       fmt::format("no layer of this model names a value '{}'", tag),
                       {fmt::format("its layers name {}", fmt::join(named, ", "))}});
}

}  // namespace

autodiff::RematPolicy remat_policy(const config::RunConfig& c, const decoder::Model& model) {
  try {
    autodiff::RematPolicy policy = autodiff::find_remat_policy(c.train.remat, c.train.remat_tags);
    check_tags(c, model);
    return policy;
  } catch (const UserError& e) {
    ErrorText text = e.text();
    text.where = fmt::format("{}: {}", c.values.where(text.where), text.where);
    throw UserError(e.code(), std::move(text));
  }
}

ModelGraph add_gradients(ModelGraph loss, const decoder::ParameterTable& parameters,
                         const autodiff::SavePolicy& save) {
  ModelGraph out = std::move(loss);
  out.graph = passes::simplify(std::move(out.graph));
  Graph& graph = out.graph;
  std::vector<Tensor> losses, seeds;
  for (auto [role, scale, name] : {std::tuple{Role::loss, Role::loss_scale, "loss_scale"},
                                   std::tuple{Role::z_loss, Role::z_loss_scale, "z_loss_scale"},
                                   std::tuple{Role::aux_loss, Role::aux_scale, "aux_scale"},
                                   std::tuple{Role::mtp_loss, Role::mtp_scale, "mtp_scale"}})
    for (std::size_t o = 0; o < out.outputs.size(); ++o) {
      if (out.outputs[o].role != role) continue;
      losses.push_back(graph.tensor(graph.outputs()[o].value));
      seeds.push_back(graph.add_input(name, losses.back().type()));
      out.inputs.push_back({scale, {}, false, {}});
    }
  LAMINA_ASSERT(losses.size() >= 2);

  std::vector<Tensor> wanted;
  std::vector<int> wanted_inputs;
  for (std::size_t i = 0; i < out.inputs.size(); ++i) {
    const InputRole& input = out.inputs[i];
    if (input.role != Role::parameter || !parameters[input.members.front()].desc.trained) continue;
    wanted.push_back(graph.tensor(graph.inputs()[i].value));
    wanted_inputs.push_back(static_cast<int>(i));
  }
  std::vector<Tensor> gradients = autodiff::vjp(graph, losses, seeds, wanted, save);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    std::size_t input = static_cast<std::size_t>(wanted_inputs[i]);
    DType wide = sum_dtype(wanted[i].dtype());
    Tensor gradient = gradients[i];
    if (!gradient) continue;
    graph.add_output("gradient of " + graph.inputs()[input].name, ops::cast(gradient, wide));
    out.outputs.push_back(
        {.role = Role::gradient, .input = wanted_inputs[i], .stacked = out.inputs[input].stacked});
  }
  return out;
}

}  // namespace lamina::train
