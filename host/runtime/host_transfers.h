// Copies between pinned host memory and a few buffers on a device, which rounds of work use in
// turn. The copies are on two queues beside the queue of the work: while a round computes, the
// operands of the next one arrive and the results of the previous one leave.
//
//   transfers.begin(3);
//   for (...) {
//     std::size_t buffer = transfers.next();
//     transfers.load(operand_in(buffer), operand_in_host_memory);
//     transfers.loaded();
//     ...                                    // enqueues the work on the queue of the backend
//     transfers.computed();
//     transfers.store(result_in_host_memory, result_in(buffer));
//   }
//   transfers.end();
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/backend.h"
#include "runtime/trace.h"

namespace lamina {

// [one thread at a time]
class HostTransfers {
 public:
  // REQUIRES: the backend outlives this.
  explicit HostTransfers(const Backend& backend);
  ~HostTransfers();
  HostTransfers(const HostTransfers&) = delete;
  HostTransfers& operator=(const HostTransfers&) = delete;

  // Starts rounds with `num_buffers` buffers. Work that is enqueued already may use their memory.
  void begin(std::size_t num_buffers);
  // Starts a round; returns the number of its buffer.
  std::size_t next();
  // Copies an operand when the buffer is free.
  void load(const TensorRef& to, const ConstTensorRef& from);
  // Delays the work of the round until the loads have arrived and the buffer is free.
  void loaded();
  // Ends the work of the round, which was enqueued.
  void computed();
  // Copies a result when the work has run.
  void store(const TensorRef& to, const ConstTensorRef& from);
  // Delays later work until all copies have run.
  void end();

  // Begins to measure copies, or stops.
  void measure(bool enabled);
  // Appends the measured copies to the trace, and forgets them. Waits for them.
  void read(Trace& trace);

 private:
  struct Buffer {
    std::shared_ptr<const Event> computed, stored;  // of its last round; null if there is none
  };
  struct Span {
    const std::string* name;
    double bytes;
    std::shared_ptr<const Event> begin, end;
  };
  void copy(Queue& queue, const std::string& name, const TensorRef& to, const ConstTensorRef& from);
  void end_round();

  const Backend& backend_;
  std::unique_ptr<Queue> loads_, stores_;
  std::shared_ptr<const Event> start_;
  std::vector<Buffer> buffers_;
  std::size_t num_rounds_ = 0, buffer_ = 0;
  bool has_loads_ = false, has_stores_ = false;  // of the round
  bool measures_ = false;
  std::vector<Span> spans_;
};

}  // namespace lamina
