// The host's side of updates during the backward pass: the numbers that they need, and their
// results.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/bound_program.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// Updates of all parameters whose gradients share memory, GradientLists::is_shared().
class BackwardUpdates {
 public:
  virtual ~BackwardUpdates() = default;
  // The next runs update layers with this learning rate. `update` counts from 0.
  virtual void begin(double lr, std::int64_t update) = 0;
  // Reads the results of a run.
  virtual void read() = 0;
  // The next runs compute gradients only.
  virtual void stop() = 0;

  // Results of the last run that was read. The first gradient that is not finite ends its updates.
  int num_updated() const { return num_updated_; }
  const std::optional<BadGradient>& bad() const { return bad_; }

 protected:
  explicit BackwardUpdates(Optimizer& optimizer) : optimizer_(optimizer) {}
  void forget_results();
  // Returns the numbers f64[6] of an update, from which check_update() makes its scalars.
  std::array<double, kNumScalars> numbers(int parameter, double lr, std::int64_t update) const;
  // Takes an Output::gradient_check, in the order of the pass.
  void take(int parameter, const double* check);

 private:
  Optimizer& optimizer_;
  int num_updated_ = 0;
  std::optional<BadGradient> bad_;
};

// Drives the updates in the graph of a program from add_layer_updates(). REQUIRES: all arguments
// outlive it.
class GraphUpdates final : public BackwardUpdates {
 public:
  // Binds the tensors that are updated.
  GraphUpdates(program::BoundProgram& program, const TrainState& state, Optimizer& optimizer);

  void begin(double lr, std::int64_t update) override;
  void read() override;
  void stop() override;

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
  std::vector<Numbers> numbers_;
  std::vector<Checks> checks_;
};

}  // namespace lamina::train
