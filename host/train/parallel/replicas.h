// Training steps on several devices: each holds the whole state and runs a part of the
// microbatches.
//
//   Replicas replicas(group, {model, optimizer, options}, state, step);
//   replicas.copy_state();
//   StepResult result = replicas.gradients(microbatches, step_number);
//   replicas.update(result, lr, update_number);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/communicator.h"
#include "train/loop/train_step.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/rank_threads.h"

namespace lamina::train {

class Replicas {
 public:
  struct Setup {
    const decoder::Model& model;
    const config::OptimizerSection& optimizer;
    const TrainStepOptions& options;  // of rank 0: the step has all_microbatches() in all
    KeptAverage average = KeptAverage::none;
    std::span<const TeacherModel> teachers = {};  // for a task that has one: one per rank
  };
  // Makes a state and a step for each rank, with its teacher; rank 0 has the given ones. REQUIRES:
  // all outlive this.
  Replicas(CommunicatorGroup& group, const Setup& setup, TrainState& state, TrainStep& step);

  // Gives all ranks the state of rank 0.
  void copy_state();

  // Like TrainStep, over the microbatches of all ranks. A failure of a rank ends the collectives of
  // all, and is thrown here; collectives that fail throw DeviceError (exit 6).
  StepResult gradients(std::span<const program::Microbatch> microbatches, std::int64_t step);
  void update(StepResult& result, double lr, std::int64_t step);

  const TrainState& state(int rank) const { return *ranks_[static_cast<std::size_t>(rank)].state; }

 private:
  struct Rank {
    std::unique_ptr<TrainState> own_state;  // null for rank 0
    std::unique_ptr<Teacher> own_teacher;
    std::unique_ptr<TrainStep> own_step;
    TrainState* state = nullptr;
    TrainStep* step = nullptr;
    std::unique_ptr<GradientExchange> exchange;
  };
  Rank& rank(int i) { return ranks_[static_cast<std::size_t>(i)]; }

  CommunicatorGroup& group_;
  std::int64_t microbatches_;  // of each rank
  std::vector<Rank> ranks_;
  RankThreads threads_;  // last member: its threads use the others
};

}  // namespace lamina::train
