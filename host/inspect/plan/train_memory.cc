// Bytes of weights, moments and gradients of a training run.
#include "inspect/plan/model_plan.h"
#include "train/row_gradients.h"
#include "train/train_step.h"

namespace lamina::inspect {

TrainMemory plan_train_memory(const decoder::Model& model, const PlanOptions& options) {
  const decoder::ModelGraph graph =
      train::step_graph(model, {.shape = {options.batch, options.tokens, options.dtype},
                                .features = train::all_losses(options.segments)});
  const bool accumulate = options.microbatches > 1;
  const decoder::ParameterTable& parameters = model.parameters();
  std::int64_t frozen = 0;
  for (const decoder::Parameter& p : parameters.all())
    if (p.learning.frozen) frozen += p.num_elements();
  return {
      .bytes = train::train_bytes(parameters, options.dtype, accumulate,
                                  train::gradient_lists(graph, parameters, options.microbatches)),
      .frozen = frozen,
      .whole_gradients = train::train_bytes(parameters, options.dtype, accumulate).gradients};
}

}  // namespace lamina::inspect
