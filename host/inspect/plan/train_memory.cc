// Bytes of weights, moments, gradients and other memory of a training run.
#include "inspect/plan/model_plan.h"
#include "train/checkpoint/snapshot.h"
#include "train/loop/train_step.h"
#include "train/optimizer/optimizer.h"
#include "train/parallel/gradient_exchange.h"

namespace lamina::inspect {

decoder::GraphFeatures PlanOptions::features() const {
  decoder::GraphFeatures out = train::all_losses(segments);
  out.layer_metrics = layer_metrics;
  out.max_logits = optimizer.qk_clip > 0;
  return out;
}

TrainMemory plan_train_memory(const decoder::Model& model, const PlanOptions& options,
                              const Backend& backend) {
  train::TrainStepOptions step{.shape = {options.batch, options.tokens, options.dtype},
                               .features = options.features(),
                               .task = options.task,
                               .microbatches = options.microbatches,
                               .step_microbatches = options.microbatches * options.num_ranks,
                               .in_backward = options.optimizer.in_backward};
  const decoder::ModelGraph graph = train::step_graph(model, step);
  const bool accumulate = options.microbatches > 1;
  const decoder::ParameterTable& parameters = model.parameters();
  const train::GradientLists lists = train::step_lists(graph, model, step);
  train::check_effects(options.optimizer, graph, lists, options.place);
  TrainMemory out;
  out.bytes = train::train_bytes(parameters, options.dtype, accumulate, lists,
                                 train::for_backend(options.optimizer, backend), options.average);
  out.updates =
      train::Optimizer(parameters, options.optimizer, backend).update_bytes(lists, options.dtype) +
      train::BackwardUpdates::bytes(lists, parameters, backend);
  if (options.num_ranks > 1)
    out.exchange =
        train::GradientExchange::bytes(parameters, lists, options.microbatches, options.num_ranks);
  if (options.async_checkpoints)
    out.checkpoint = train::max_snapshot_bytes(parameters, options.optimizer, options.average);
  if (options.teacher)
    out.teacher = train::teacher_bytes(*options.teacher,
                                       {options.batch, options.tokens, options.teacher_dtype},
                                       options.task->teacher(), backend);
  for (const decoder::Parameter& p : parameters.all())
    if (p.learning.frozen) out.frozen += p.num_elements();
  out.whole_gradients = train::train_bytes(parameters, options.dtype, accumulate).gradients;
  return out;
}

}  // namespace lamina::inspect
