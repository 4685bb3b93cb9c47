#include "inspect/verify/prediction.h"

#include <algorithm>

#include "autodiff/vjp.h"
#include "core/error.h"
#include "decoder/mtp/mtp_labels.h"
#include "inspect/verify/forward.h"
#include "program/bound_program.h"
#include "program/records.h"
#include "train/optimizer/gradients.h"

namespace lamina::inspect {

using decoder::Output;

namespace {

std::size_t elements_of(const decoder::ModelGraph& of, Output role) {
  const auto at = std::ranges::find(of.outputs, role, &decoder::OutputRole::role);
  LAMINA_ASSERT(at != of.outputs.end());
  const auto index = static_cast<std::size_t>(at - of.outputs.begin());
  return static_cast<std::size_t>(
      of.graph.type(of.graph.outputs()[index].value).shape.num_elements());
}

}  // namespace

Prediction predict(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                   const program::Rows& rows, DType dtype, const Backend& backend) {
  decoder::ModelGraph graph = model.forward_graph({rows.batch, rows.tokens, dtype},
                                                  {.segments = rows.packed(), .mtp = true});
  Prediction out;
  out.hidden.resize(elements_of(graph, Output::mtp_hidden));
  out.normed.resize(elements_of(graph, Output::mtp_normed));
  program::BoundProgram program(std::move(graph), backend);
  std::size_t depth = static_cast<std::size_t>(model.mtp_depth());
  std::vector<float> main(rows.ids.size() * static_cast<std::size_t>(model.vocab_size()));
  out.logits.resize(depth * main.size());
  program.bind_parameters(parameters);
  rows.microbatch().bind(program);
  program.bind(Output::logits, main.data());
  program.bind(Output::mtp_hidden, out.hidden.data());
  program.bind(Output::mtp_normed, out.normed.data());
  program.bind(Output::mtp_logits, out.logits.data());
  program::run(program, backend);
  return out;
}

double prediction_gradients(const decoder::Model& model, const train::TrainState& state,
                            const program::Rows& rows, DType dtype, const Backend& backend) {
  LAMINA_ASSERT(model.mtp_depth() == 1);
  program::BoundProgram program(
      train::add_gradients(
          model.loss_graph({rows.batch, rows.tokens, dtype},
                           {.segments = rows.packed(), .training = true, .mtp = true}),
          model.parameters(), autodiff::save_everything()),
      backend);
  double labels = static_cast<double>(decoder::count_mtp_labels(
      rows.labels.data(), rows.packed() ? rows.segments.data() : nullptr, rows.batch, rows.tokens,
      model.mtp_depth(), model.options().mtp.chained));
  double denominator = labels * model.mtp_weight(0);
  program.bind_parameters(state.used());
  program.bind_gradients(state.gradients());
  rows.microbatch().bind(program);
  program.set_loss_scales({{"mtp_loss", 1 / denominator}});
  program::run(program, backend);
  return program.loss("mtp_loss") / denominator;
}

}  // namespace lamina::inspect
