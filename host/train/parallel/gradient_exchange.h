// The sum of the gradients of all ranks, begun while the backward pass still runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decoder/stack/parameter.h"
#include "program/bound_program.h"
#include "runtime/buffer_parts.h"
#include "runtime/communicator.h"
#include "train/optimizer/gradient_tensors.h"
#include "train/optimizer/train_state.h"
#include "train/parallel/rank_updates.h"

namespace lamina::train {

// Finds out after which kernel call of a pass each gradient is complete. The order of calls is the
// same in each run of a program, so one run is enough.
class GradientOrder {
 public:
  // Follows the gradients of the program: one tensor per parameter, null for parameters without
  // one.
  GradientOrder(const program::BoundProgram& program, std::vector<TensorRef> gradients);

  // The events of a Watcher; `call` counts calls of ran().
  void enter(const Graph& graph, NodeId scan, std::int64_t call);
  void leave();
  void ran(const Graph& graph, NodeId node, std::span<const TensorRef> results, std::int64_t call);

  // By parameter: the number of the last call that writes or reads its gradient; 0 for none.
  const std::vector<std::int64_t>& last_calls() const { return last_; }

 private:
  using Place = std::pair<const Graph*, ValueId>;
  void touch(Address begin, Address end, std::int64_t call);
  void read(const Graph& graph, const Node& node, std::int64_t call);

  const program::BoundProgram& program_;
  std::vector<TensorRef> gradients_;
  std::vector<std::int64_t> last_;
  std::map<Address, std::size_t> at_;                     // gradients by their address
  std::map<Place, std::pair<Address, Address>> written_;  // by value: where it was written last
  std::map<ValueId, std::vector<int>> of_output_;         // of the whole graph: parameters by value
  std::vector<std::pair<const Graph*, NodeId>> scans_;    // that are under way
};

// [the thread of the rank]
class GradientExchange : private Watcher {
 public:
  // `lists_of_rank` are the lists of the microbatches of this rank. `updates`: sums the gradients
  // that share memory; null: there are none. REQUIRES: all outlive this.
  GradientExchange(program::BoundProgram& program, GradientTensors& tensors,
                   const TrainState& state, const GradientLists& lists_of_rank,
                   Communicator& communicator, std::size_t bucket_bytes,
                   RankUpdates* updates = nullptr);

  // Calls `run`, which runs the program once, as the last microbatch of a step, and begins to sum
  // the gradients as they become complete.
  void around_last(const std::function<void()>& run);
  // Waits until all gradients are sums over the ranks; sums lists of rows, too.
  void finish();

  // Returns the bytes that a rank takes beside the gradients: the lists of rows of all ranks.
  // `lists` are the state's; `microbatches`: of each rank.
  static std::size_t bytes(const decoder::ParameterTable& parameters, const GradientLists& lists,
                           std::int64_t microbatches, int num_ranks);

 private:
  void enter(const Graph& graph, NodeId scan, std::int64_t element) override;
  void leave() override;
  void ran(const Graph& graph, NodeId node, std::span<const TensorRef> results) override;
  void make_buckets();
  void send();
  void gather_lists();

  // Gradients that are summed by one call.
  struct Bucket {
    std::int64_t after = 0;  // the call after which they are complete
    std::vector<TensorRef> gradients;
  };
  // A list of rows of this rank, and room for the lists of all ranks.
  struct Gathered {
    int parameter;
    TensorRef ids, rows;
    TensorRef all_ids, all_rows;
  };

  program::BoundProgram& program_;
  GradientTensors& tensors_;
  const TrainState& state_;
  Communicator& communicator_;
  std::size_t bucket_bytes_;
  RankUpdates* updates_;
  std::optional<GradientOrder> order_;  // until the buckets are made
  std::vector<Bucket> buckets_;         // in the order in which they are complete
  std::size_t next_ = 0;                // bucket to send
  std::int64_t num_calls_ = 0;
  std::vector<Gathered> lists_;
  BufferParts gathered_;
};

}  // namespace lamina::train
