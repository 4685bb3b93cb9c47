// optimizer.in_backward on several devices: sums the gradients of a layer over all ranks while the
// backward pass of the next layer runs, and then updates the layer.
#pragma once

#include <cstddef>

#include "runtime/communicator.h"
#include "train/optimizer/backward_updates.h"

namespace lamina::train {

// [the thread of the rank]
class RankUpdates final : public BackwardUpdates {
 public:
  RankUpdates(program::BoundProgram& program, const TrainState& state, Optimizer& optimizer,
              Communicator& communicator, double clip_norm)
      : BackwardUpdates(program, state, optimizer, clip_norm), communicator_(communicator) {}

  // Updates the layers of the last round. Later work of the program's queue waits for no other
  // rank.
  void finish();
  // The host waits for the communicator.
  bool can_be_recorded(std::vector<Address>&) const override { return false; }

 private:
  void ended(std::size_t round) override;

  Communicator& communicator_;
};

}  // namespace lamina::train
