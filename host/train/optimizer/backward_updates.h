// The host's side of updates in the backward pass: the numbers that they need, and their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/bound_program.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// Drives the updates of a program from add_layer_updates(), which has all parameters whose
// gradients share memory, GradientLists::is_shared(). REQUIRES: all arguments outlive it.
class BackwardUpdates {
 public:
  // Binds the tensors that are updated.
  BackwardUpdates(program::BoundProgram& program, const TrainState& state, Optimizer& optimizer);

  // The next runs update layers with this learning rate. `update` counts from 0.
  void begin(double lr, std::int64_t update);
  // Reads the results of a run.
  void read();
  // The next runs compute gradients only.
  void stop();

  // Results of the last run that was read. The first gradient that is not finite ends its updates.
  int num_updated() const { return num_updated_; }
  const std::optional<BadGradient>& bad() const { return bad_; }

 private:
  // The parameters whose updates share an input with their numbers.
  struct Numbers {
    std::size_t input;
    std::vector<int> members;
  };
  // The updates of one scan: an output for each parameter input.
  struct Checks {
    NodeId scan;
    std::vector<std::size_t> outputs;
  };
  void read(const Checks& checks);

  program::BoundProgram& program_;
  const TrainState& state_;
  Optimizer& optimizer_;
  std::vector<Numbers> numbers_;
  std::vector<Checks> checks_;
  int num_updated_ = 0;
  std::optional<BadGradient> bad_;
};

}  // namespace lamina::train
