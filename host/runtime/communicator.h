// The exchange of tensors between the devices of one run: one Communicator for each device, which
// is then a rank.
//
//   communicator.queue().wait(program.queue().record());  // the gradients are complete
//   communicator.all_reduce(gradients);
//   communicator.finish();
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/memory.h"
#include "runtime/queue.h"

namespace lamina {

// Collectives are calls that all ranks make in the same order, with tensors of the same sizes. They
// are enqueued on queue() and return before they have run. A call that fails throws DeviceError
// (exit 6), also because of another rank. [one thread at a time, another one for each rank]
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // counted from 0
  virtual int num_ranks() const = 0;
  virtual const Backend& backend() const = 0;  // of this rank's device
  // The queue of the collectives, beside the queue of programs.
  virtual Queue& queue() = 0;

  // Replaces each tensor, f32, by the sum over all ranks. All ranks get the same bits, and the same
  // bits in each run.
  virtual void all_reduce(std::span<const TensorRef> tensors) = 0;
  // Writes `from` of all ranks one after another into `to`.
  virtual void all_gather(const TensorRef& to, const ConstTensorRef& from) = 0;
  // Copies the tensor of rank `root` to all others.
  virtual void broadcast(const TensorRef& tensor, int root) = 0;

  // Returns when all collectives of this rank have run. Throws DeviceError (exit 6) that names the
  // rank and the collective if another rank fails, or does not come within the time limit.
  virtual void finish() = 0;
  // Ends the collectives of this rank, which have no results then, and makes finish() of all other
  // ranks throw. Later calls of this rank throw. Throws nothing.
  virtual void abort() = 0;
};

// All ranks of a run, in their order.
struct CommunicatorGroup {
  std::vector<std::unique_ptr<Communicator>> ranks;  // empty, or more than one
  std::vector<std::string> names;                    // of the devices: "cuda:1"
  // Called by each thread that a run starts for a rank; may be empty.
  std::function<void()> begin_thread;
  // Tensors that all_reduce() sums in one call: more use the links better, fewer begin earlier.
  std::size_t bucket_bytes = std::size_t{25} << 20;

  int size() const { return ranks.empty() ? 1 : static_cast<int>(ranks.size()); }
};

}  // namespace lamina
