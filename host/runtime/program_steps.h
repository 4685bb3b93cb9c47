// The private types of Program, shared by its planner and its runner.
#pragma once

#include <optional>

#include "graph/scan_shape.h"
#include "runtime/host_transfers.h"
#include "runtime/program.h"
#include "runtime/recorded_runs.h"

namespace lamina {

// A scan: the program of its body, and the layout of its operands and results.
struct Program::Scan {
  std::shared_ptr<Program> body;
  std::int64_t times = 1;
  ScanShape shape = {};
  bool reverse = false;
  std::vector<std::int64_t> input_strides;  // bytes from one layer to the next; 0 for consts
  std::vector<std::int64_t> output_strides;
  // Offsets in the step's workspace. It has two buffers per carry, used alternately, then the
  // body's arena.
  std::vector<std::size_t> carry_offsets;
  std::size_t carry_gap_bytes = 0;  // from a carry's first buffer to its second
  std::size_t body_arena_offset = 0;
  // Slots of the body, filled in each iteration; kept to avoid allocation.
  std::vector<Slot> slots;

  // A stacked operand or result in host memory, or a result over an operand. A layer of it is in
  // one of the buffers while the body runs.
  struct HostPart {
    int input = -1, output = -1;  // of the body; -1: none
    std::size_t bytes = 0;        // of a layer
    std::size_t offset = 0;       // in a buffer
    Address host = 0;             // of the current layer
  };
  std::vector<HostPart> host_parts;
  // Buffers in the step's workspace.
  std::size_t host_buffers_offset = 0, host_buffer_bytes = 0, num_host_buffers = 0;
};

// Memory of the values in host memory, and the copies from and to it.
struct Program::HostPlace {
  explicit HostPlace(const Backend& of) : backend(of) {}
  const Backend& backend;
  std::unique_ptr<Buffer> memory;
  std::optional<HostTransfers> transfers;  // made at the first use: a described device has no queue
};

struct Program::Step {
  std::vector<NodeId> nodes;       // one, or a group (node_groups.h)
  std::unique_ptr<Kernel> kernel;  // null for a scan
  std::unique_ptr<Scan> scan;
  std::string kernel_name;
  std::vector<Refusal> refusals;
  std::vector<Location> inputs, outputs;  // of the nodes, one after the other
  Location workspace;
  std::size_t counter_bytes = 0;  // of a CountingKernel; their location is the last of `outputs`
  std::vector<const void*> in_pointers;  // filled in each run
  std::vector<void*> out_pointers;
  double seconds = 0;
  std::int64_t calls = 0;

  // Enqueues a fill of the counters of all steps of a program; none if it has no counters.
  static void clear_counters(const Program& program, Address arena);
};

// Events around the steps of a run. They are read after the run, because a queue may run the steps
// later.
class StepTimes {
 public:
  // An event on the queue at the beginning of a step.
  using Begin = std::shared_ptr<const Event>;
  static Begin begin(Program& program) { return program.queue_->record(); }
  void end(Program& program, Program::Step& step, Begin begin);
  // Waits for the events, then adds their times to the steps and to the trace.
  void read(bool profiling, Trace* trace);

  std::int64_t iteration = -1;  // of the innermost scan that runs

 private:
  struct Span {
    const Graph* graph;
    Program::Step* step;
    std::int64_t iteration;
    std::shared_ptr<const Event> begin, end;
  };
  std::vector<Span> spans_;  // in the order in which they ended
};

// Copies between the memory bound to a program and memory that its kernels can reach: all inputs in
// one transfer before a run, all outputs in one transfer after it. The steps between the transfers
// are recorded where the queue can.
class Program::Staging {
 public:
  explicit Staging(const Backend& backend) : backend_(backend) {
    if (auto* recorder = dynamic_cast<Recorder*>(&backend.context().queue());
        recorder && recorder->records())
      recorded_ = std::make_unique<RecordedRuns>(*recorder);
    for (const MemoryKind kind :
         {MemoryKind::host, MemoryKind::pinned, MemoryKind::device, MemoryKind::mapped})
      reaches_[static_cast<std::size_t>(kind)] = backend.reaches(kind);
  }

  bool reaches(MemoryKind kind) const { return reaches_[static_cast<std::size_t>(kind)]; }

  // Forgets the tensors of the previous run.
  void begin() {
    transfers_.clear();
    waits_ = false;
  }
  // Inputs are in pinned memory: work that was enqueued before may still write them.
  void wait_before_reading() { waits_ = true; }
  // Plans to copy `bytes` from `host` before the run, or to `host` after it. copy_in() sets *slot
  // to the address of the copy.
  void add_input(Address host, std::size_t bytes, Address* slot);
  void add_output(Address host, std::size_t bytes, Address* slot);
  // Plans an output over the input that was added with the same memory.
  void add_alias(Address host, Address* slot);

  void copy_in(Queue& queue);
  void copy_out(Queue& queue);  // waits if there are outputs

  // Enqueues the steps of a run, as a replay of an earlier run if there is one.
  void run_steps(Program& program, Address arena);
  // Returns a line about recording, for people; empty if the queue cannot record work.
  std::string graph_text(const Program& program) const;

 private:
  struct Transfer {
    Address host;
    std::size_t bytes;
    bool in, out;
    std::vector<Address*> slots;
    std::size_t offset = 0;
  };
  TensorRef bytes_of(Buffer& buffer, std::size_t begin, std::size_t end) const;
  std::byte* mirror() const;  // the contents of host_
  bool has_same_inputs() const;
  static std::int64_t num_calls(const Program& program);

  const Backend& backend_;
  bool reaches_[4];
  std::vector<Transfer> transfers_;
  bool waits_ = false;
  std::unique_ptr<RecordedRuns> recorded_;  // null if the queue cannot record work
  std::vector<Address> addresses_;          // of the current run
  std::unique_ptr<Buffer> device_, host_;
  std::shared_ptr<const Event> copied_in_;  // after it host_ may be written again
  std::size_t copied_bytes_ = 0;  // at the begin of both buffers, never written by kernels
  // Layout of both buffers: inputs, inputs that are also outputs, outputs.
  std::size_t first_output_ = 0, inputs_end_ = 0, end_ = 0;
};

}  // namespace lamina
