#include "train/parallel/replicas.h"

#include "core/error.h"

namespace lamina::train {

Replicas::Replicas(CommunicatorGroup& group, const Setup& setup, TrainState& state, TrainStep& step)
    : group_(group), microbatches_(setup.options.microbatches), threads_(group) {
  LAMINA_ASSERT(setup.options.all_microbatches() == microbatches_ * group.size());
  const decoder::ParameterTable& parameters = setup.model.parameters();
  const decoder::ModelGraph graph = step_graph(setup.model, setup.options);
  const GradientLists lists = gradient_lists(graph, parameters, microbatches_);
  for (int i = 0; i < group.size(); ++i) {
    Communicator& communicator = *group.ranks[static_cast<std::size_t>(i)];
    Rank made{.state = &state, .step = &step};
    if (i > 0) {
      TrainStepOptions options = setup.options;
      options.first_microbatch = i * microbatches_;
      made.own_state = std::make_unique<TrainState>(parameters, options.shape.dtype,
                                                    microbatches_ > 1, communicator.backend(),
                                                    state.lists(), setup.optimizer, setup.average);
      made.own_step = std::make_unique<TrainStep>(setup.model, graph, *made.own_state, options,
                                                  setup.optimizer, communicator.backend());
      if (options.task->teacher().any) {
        made.own_teacher = make_teacher(setup.teachers[static_cast<std::size_t>(i)], options,
                                        communicator.backend());
        made.own_step->set_teacher(made.own_teacher.get());
      }
      made.state = made.own_state.get();
      made.step = made.own_step.get();
    }
    RankUpdates* updates = nullptr;
    if (setup.options.in_backward) {
      auto own =
          std::make_unique<RankUpdates>(made.step->program(), *made.state, made.step->optimizer(),
                                        communicator, setup.options.clip_norm);
      updates = own.get();
      made.step->set_backward_updates(std::move(own));
    }
    made.exchange = std::make_unique<GradientExchange>(
        made.step->program(), made.step->gradient_tensors(), *made.state, lists, communicator,
        group.bucket_bytes, updates);
    ranks_.push_back(std::move(made));
  }
}

void Replicas::copy_state() {
  rank(0).state->queue().finish();  // the host reads its offloaded tensors below
  threads_.run([&](int i) {
    Communicator& communicator = *group_.ranks[static_cast<std::size_t>(i)];
    communicator.queue().wait(rank(i).state->queue().record());
    communicator.broadcast(rank(i).state->whole(), 0);
    communicator.finish();
    if (i > 0) rank(i).state->copy_offloaded(*rank(0).state);
  });
}

StepResult Replicas::gradients(std::span<const program::Microbatch> microbatches,
                               std::int64_t step) {
  const LossCounts counts = rank(0).step->count(microbatches);
  const auto each = static_cast<std::size_t>(microbatches_);
  threads_.run([&](int i) {
    Rank& mine = rank(i);
    mine.step->set_update_like(*rank(0).step);
    mine.step->add_microbatches(
        microbatches.subspan(static_cast<std::size_t>(i) * each, each), counts, step,
        [&](const std::function<void()>& run) { mine.exchange->around_last(run); });
    mine.exchange->finish();
  });
  for (int i = 1; i < group_.size(); ++i) rank(0).step->add(*rank(i).step);
  return rank(0).step->result(microbatches, counts, step);
}

void Replicas::update(StepResult& result, double lr, std::int64_t step) {
  result.lr = lr;
  threads_.run([&](int i) { rank(i).step->update_like(*rank(0).step, lr, step); });
}

}  // namespace lamina::train
