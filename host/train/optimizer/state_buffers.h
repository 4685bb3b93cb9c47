// Buffers on the device for optimizer state in host memory: while one update changes its state, the
// next state arrives and the previous one leaves.
//
//   buffers.begin(sizes);
//   for (...) {
//     std::vector<TensorRef> here = buffers.load({master, m, v});
//     ...                   // enqueues the update of the tensors in `here`
//     buffers.store();
//   }
//   buffers.end();
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/backend.h"
#include "runtime/host_transfers.h"

namespace lamina::train {

// Sizes of the state of single updates, from which the memory of the buffers follows.
class StateSizes {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  static constexpr std::size_t kNumBuffers = 3;

  // State of more than `most_bytes` has all the memory, so that nothing is copied while its update
  // runs.
  explicit StateSizes(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  void add(std::size_t bytes);
  // Adds all sizes of another series.
  void add(const StateSizes& more);
  std::size_t buffer_bytes() const { return largest_; }
  // Returns the bytes of all buffers together.
  std::size_t bytes() const;

 private:
  std::size_t most_bytes_;
  std::size_t largest_ = 0;  // up to most_bytes_
  std::size_t alone_ = 0;    // the largest above it
};

// [one thread at a time]
class StateBuffers {
 public:
  // REQUIRES: the backend outlives this.
  explicit StateBuffers(const Backend& backend) : backend_(backend) {}

  // Starts a series of updates, each with state of one of `sizes`. Allocates the buffers in the
  // first series.
  void begin(const StateSizes& sizes);
  // Returns the tensors, with those in pinned memory replaced by their copies on the device.
  std::vector<TensorRef> load(std::span<const TensorRef> tensors);
  // Ends an update by copying them back after the work that is enqueued by now.
  void store();
  // Ends an update that has not changed them.
  void release();
  // Delays later work of the queue until the state is in host memory.
  void end();

  // The address of the buffers; 0 before the first series.
  Address address() const { return memory_ ? memory_->address() : 0; }

  // Later copies are added to the trace; null: none.
  void set_trace(Trace* trace);

 private:
  void end_update();

  struct Loaded {
    TensorRef here, home;
  };
  const Backend& backend_;
  StateSizes sizes_;
  std::unique_ptr<Buffer> memory_;
  std::optional<HostTransfers> transfers_;
  std::vector<Loaded> loaded_;
  bool is_alone_ = false;
  Trace* trace_ = nullptr;
};

}  // namespace lamina::train
