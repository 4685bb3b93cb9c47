// The objective of a run: the loss of its graphs, the items that the loss sums over, and the
// weights or teacher that it is compared with. One loop trains all tasks.
#pragma once

#include <cstdint>
#include <memory>

#include "config/sections.h"
#include "decoder/model.h"
#include "program/microbatch.h"
#include "train/loop/step_losses.h"

namespace lamina::train {

// Immutable. [any thread]
class Task {
 public:
  virtual ~Task() = default;

  // The term "loss" is a sum over the items that count() counts, like each Output::task_sum, whose
  // mean a step reports by its name. Here: of next tokens, as in Model::loss_graph().
  virtual decoder::ModelGraph loss_graph(const decoder::Model& model,
                                         const decoder::GraphShape& shape,
                                         const decoder::GraphFeatures& features) const;
  virtual std::int64_t count(const program::Microbatch& batch,
                             const decoder::GraphShape& shape) const;

  // True if the loss is a cross-entropy, so that e to its power is a perplexity.
  virtual bool has_perplexity() const { return true; }
  // True if multi-token prediction has a loss; otherwise its parameters stay unchanged.
  virtual bool trains_mtp() const { return true; }
  // True if graphs read Input::reference: the log-probabilities of segments by the weights at the
  // start of the run, which log_probability_graph() computes.
  virtual bool compares_with_start() const { return false; }
  // The outputs of a second model that graphs of training read.
  virtual decoder::TeacherShape teacher() const { return {}; }

  // The weight of the loss of labels; weigh() adds the weights of the task's own terms.
  virtual double label_weight() const { return 1; }
  virtual void weigh(LossWeights&) const {}
};

std::shared_ptr<const Task> next_token_task();

// Trains on next tokens, the divergence from a teacher's predictions, and the distance of layers'
// outputs from the teacher's. docs/finetuning.md has the equation. loss_graph() throws UserError
// (exit 2, at the place of the key) if the model cannot learn so.
std::shared_ptr<const Task> distillation_task(const config::DistillationSection& section,
                                              const config::KeyPlace& place = {});

// Trains on pairs of segments, a preferred answer and another: DPO, IPO and ORPO. Segments 1 and 2
// of a row are a pair, 3 and 4 the next. docs/finetuning.md has the losses.
std::shared_ptr<const Task> preference_task(const config::PreferenceSection& section);

// Returns the graph of Output::segment_logp, f32[B, S], S = data::max_segments(): the
// log-probability of the labels of each segment, 0 for absent ones.
decoder::ModelGraph log_probability_graph(const decoder::Model& model,
                                          const decoder::GraphShape& shape);

}  // namespace lamina::train
