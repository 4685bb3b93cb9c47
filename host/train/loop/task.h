// What a run learns: the loss of its graphs, what that is the sum of, and what it is compared with.
// There is one loop for all of them.
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

  // The term "loss" is a sum over what count() counts; so is each Output::task_sum, whose mean a
  // step reports by its name. Here: of next tokens, as Model::loss_graph() has it.
  virtual decoder::ModelGraph loss_graph(const decoder::Model& model,
                                         const decoder::GraphShape& shape,
                                         const decoder::GraphFeatures& features) const;
  virtual std::int64_t count(const program::Microbatch& batch,
                             const decoder::GraphShape& shape) const;

  // Whether the loss is a cross-entropy, so that e to its power is a perplexity.
  virtual bool has_perplexity() const { return true; }
  // Whether multi-token prediction has a loss; without one its parameters stay as they are.
  virtual bool trains_mtp() const { return true; }
  // Whether graphs read Input::reference: the log-probabilities of segments by the weights that the
  // run begins with, which log_probability_graph() computes.
  virtual bool compares_with_start() const { return false; }
  // What graphs of training read of a second model.
  virtual decoder::TeacherShape teacher() const { return {}; }

  // The weight of the loss of labels, and those of terms of the task's own.
  virtual double label_weight() const { return 1; }
  virtual void weigh(LossWeights&) const {}
};

std::shared_ptr<const Task> next_token_task();

// Next tokens, the divergence from what a teacher predicts, and the distance of layers' outputs
// from the teacher's. docs/finetuning.md has the equation. Throws UserError (exit 2, at the place
// of the key) with the graph where the model cannot learn so.
std::shared_ptr<const Task> distillation_task(const config::DistillationSection& section,
                                              const config::KeyPlace& place = {});

// Pairs of segments, an answer that is preferred and one that is not: DPO, IPO and ORPO. Segments 1
// and 2 of a row are a pair, 3 and 4 the next. docs/finetuning.md has the losses.
std::shared_ptr<const Task> preference_task(const config::PreferenceSection& section);

// f32[B, S] as Output::segment_logp, S = data::max_segments(): the log-probability of the labels of
// each segment, 0 where there is none.
decoder::ModelGraph log_probability_graph(const decoder::Model& model,
                                          const decoder::GraphShape& shape);

}  // namespace lamina::train
