// optimizer.in_backward: updates layers between the rounds of the backward pass, and then frees
// their gradients.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "program/bound_program.h"
#include "program/tensor_programs.h"
#include "runtime/buffer_parts.h"
#include "train/optimizer/backward_rounds.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/train_state.h"

namespace lamina::train {

class BackwardUpdates : public Watcher {
 public:
  // `program` computes the gradients of `state`, whose lists have rounds. `clip_norm` limits the
  // norm of each gradient; 0: none. REQUIRES: all outlive this.
  BackwardUpdates(program::BoundProgram& program, const TrainState& state, Optimizer& optimizer,
                  double clip_norm);
  ~BackwardUpdates() override = default;

  // The next pass updates layers with this learning rate. `update` counts from 0.
  void begin(double lr, std::int64_t update);
  // Calls `run`, which runs the program once, and updates the layers.
  void around(const std::function<void()>& run);
  // Reads the results of the pass.
  void read();

  // Results of the last pass that was read. The first round with a gradient that is not finite ends
  // its updates.
  int num_updated() const { return num_updated_; }
  const std::optional<BadGradient>& bad() const { return bad_; }

  void enter(const Graph& graph, NodeId scan, std::int64_t element) override;
  void leave() override;
  void ran(const Graph&, NodeId, std::span<const TensorRef>) override {}
  bool can_be_recorded(std::vector<Address>& addresses) const override;

  // Returns the bytes of its memory and temporaries, beside the optimizer's.
  static std::size_t bytes(const GradientLists& lists, const decoder::ParameterTable& table,
                           const Backend& backend);

 protected:
  // After the work of a round was enqueued.
  virtual void ended(std::size_t round) { update(round); }
  // Updates the layers of a round. Rounds follow each other.
  void update(std::size_t round);

  const std::vector<BackwardRound>& rounds() const { return rounds_; }
  const TrainState& state() const { return state_; }
  Queue& queue() const { return program_.program().queue(); }

 private:
  // The kind of a scalars_graph().
  struct ScalarsKind {
    std::int64_t n = 0;
    bool is_first = false;
    auto operator<=>(const ScalarsKind&) const = default;
  };
  // Returns the part of one parameter, of a tensor with a row for each.
  TensorRef row_of(const TensorRef& rows, int parameter, std::int64_t place, Shape shape) const;

  program::BoundProgram& program_;
  const TrainState& state_;
  Optimizer& optimizer_;
  std::vector<BackwardRound> rounds_;  // of the program's graph
  std::vector<std::int64_t> rows_;     // by parameter: its row in the tensors below
  BufferParts memory_;
  TensorRef numbers_, scalars_, checks_, updating_;  // see update_checks.h
  program::TensorPrograms<std::vector<std::int64_t>> measures_;
  program::TensorPrograms<ScalarsKind> scalars_programs_;
  // The iteration of a scan of the whole graph that is under way, and the number of those within.
  NodeId scan_ = kNoNode;
  std::int64_t element_ = 0;
  int depth_ = 0;
  int num_updated_ = 0;
  std::optional<BadGradient> bad_;
};

}  // namespace lamina::train
