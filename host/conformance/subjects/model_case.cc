#include "conformance/subjects/model_case.h"

#include <algorithm>

#include "conformance/check.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/fingerprint.h"
#include "core/error.h"
#include "ops/custom.h"

namespace lamina::conformance {

std::vector<float> ModelCase::forward(const decoder::Model& model,
                                      std::span<const ConstTensorRef> parameters,
                                      const program::Rows& rows, DType dtype) const {
  return inspect::forward(model, parameters, rows, {.dtype = dtype}, backend()).logits;
}

std::unique_ptr<train::TrainState> ModelCase::load_state(const decoder::Model& model,
                                                         DType compute_in, bool accumulate) const {
  auto state =
      std::make_unique<train::TrainState>(model.parameters(), compute_in, accumulate, backend());
  const weights::Weights weights = load(model, DType::f32);
  const std::vector<std::vector<float>> values = copy_of(model, weights.pointers(), backend());
  for (std::size_t i = 0; i < values.size(); ++i)
    state->queue().copy(state->masters()[i], host_tensor(std::span(values[i])));
  state->queue().finish();
  state->refresh_copies();
  return state;
}

std::size_t num_uses(const decoder::Model& model, std::string_view attribute) {
  std::size_t out = 0;
  const decoder::ModelGraph training =
      model.loss_graph({2, 5}, {.training = true, .aux = true, .mtp = true});
  for_each_graph(ops::inline_custom(training.graph), [&](const Graph& graph) {
    for (const Node& node : graph.nodes())
      for (std::size_t i = 0; i < node.attrs.size(); ++i)
        if (node.op->attrs[i].name == attribute &&
            !same_attr(node.attrs[i], node.op->attrs[i].fallback))
          ++out;
  });
  return out;
}

void require_float64(const decoder::Model& model) {
  const decoder::GraphShape shape{2, 5, DType::f64};
  try {
    model.loss_graph(shape, {.training = true, .aux = true, .mtp = true});
  } catch (const PluginError& refused) {
    skip(
        "its blocks do not build in float64, the compute type of this check: {}; cast_like() and "
        "widen() follow the type of a run",
        refused.text().what);
  }
  const decoder::ModelGraph loss = model.loss_graph(shape, {.training = true, .mtp = true});
  for_each_graph(loss.graph, [](const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (!node.op->def->facts.moves_data || graph.type(node.inputs[0]).dtype != DType::f64)
        continue;
      const DType to = graph.type(node.outputs[0]).dtype;
      if (is_floating(to) && to != DType::f64)
        skip(
            "its blocks round float64, the compute type of this check, to {} ({}); cast_like() and "
            "widen() follow the type of a run",
            name(to), node.origin ? to_string(*node.origin) : "unknown place");
    }
  });
}

}  // namespace lamina::conformance
