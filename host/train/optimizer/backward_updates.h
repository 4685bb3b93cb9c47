// Updates in the backward pass: of the parameters of a layer, once their gradients are complete.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "program/bound_program.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

// Updates the parameters whose gradients share memory, GradientLists::is_shared(); the others are
// updated after the whole pass. REQUIRES: all arguments outlive it.
class BackwardUpdates final : public Watcher {
 public:
  // `clip_norm`: limit of the norm of each gradient; 0 = none.
  BackwardUpdates(program::BoundProgram& program, TrainState& state, Optimizer& optimizer,
                  double clip_norm);

  // Until end(), layers are updated with this learning rate while the program runs. `update` counts
  // from 0. The first gradient that is not finite ends the updates.
  void begin(double lr, std::int64_t update);
  void end();

  // Results of the last run.
  int num_updated() const { return num_updated_; }
  const std::optional<BadGradient>& bad() const { return bad_; }

  void enter(const Graph& graph, NodeId scan, std::int64_t element) override;
  void leave() override;
  void ran(const Graph&, NodeId, std::span<const TensorRef>) override {}

 private:
  struct Round {
    bool of_layers = false;  // false for a scan inside a body
    NodeId scan = kNoNode;
    std::int64_t element = 0;
  };
  void update(int parameter);

  program::BoundProgram& program_;
  TrainState& state_;
  Optimizer& optimizer_;
  double clip_norm_;
  std::map<NodeId, std::vector<std::vector<int>>> members_;  // of a scan's gradients
  std::vector<Round> rounds_;                                // rounds under way, outermost first
  double lr_ = 0;
  std::int64_t update_ = 0;
  int num_updated_ = 0;
  std::optional<BadGradient> bad_;
};

}  // namespace lamina::train
