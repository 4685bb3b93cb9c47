// optimizer.in_backward on several devices: sums the gradients of a layer over all ranks while the
// backward pass of the next layer runs, and then updates the layer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program/bound_program.h"
#include "program/tensor_programs.h"
#include "runtime/buffer_parts.h"
#include "runtime/communicator.h"
#include "train/optimizer/backward_rounds.h"
#include "train/optimizer/backward_updates.h"

namespace lamina::train {

// [the thread of the rank]
class RankUpdates final : public BackwardUpdates {
 public:
  // `program` computes the gradients of `state`, whose lists have rounds. `clip_norm` limits the
  // norm of each gradient; 0: none. REQUIRES: all outlive this.
  RankUpdates(program::BoundProgram& program, const TrainState& state, Optimizer& optimizer,
              Communicator& communicator, double clip_norm);

  void begin(double lr, std::int64_t update) override;
  void read() override;
  void stop() override {}

  // After an iteration of a scan of the program's graph was enqueued: if it was a round, begins to
  // sum its gradients, and updates the layer of the round before.
  void left(NodeId scan, std::int64_t element);
  // Updates the layer of the last round. Later work of the program's queue waits for no other rank.
  void finish();

  // Returns the bytes of its memory and temporaries, beside the optimizer's.
  static std::size_t bytes(const GradientLists& lists, const decoder::ParameterTable& table,
                           const Backend& backend);

 private:
  // The sizes of the gradients of a round.
  struct Sizes {
    std::vector<std::int64_t> elements;
    bool is_first = false;
    auto operator<=>(const Sizes&) const = default;
  };
  static Graph checks_graph(const Sizes& sizes, double clip_norm);
  void send(std::size_t round);
  void update(std::size_t round);

  program::BoundProgram& program_;
  const TrainState& state_;
  Optimizer& optimizer_;
  Communicator& communicator_;
  std::vector<BackwardRound> rounds_;  // of the program's graph
  std::size_t num_left_ = 0;
  std::vector<std::int64_t> rows_;  // by parameter: its first element of the tensors below
  BufferParts memory_;
  TensorRef numbers_, scalars_, checks_, updating_;
  program::TensorPrograms<Sizes> programs_;
};

}  // namespace lamina::train
