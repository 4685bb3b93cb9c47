// A program: a graph compiled for one backend into a flat list of kernel calls over one arena.
//
//   Program program(graph, backend);
//   auto arena = backend.allocate(program.arena_bytes());
//   program.run(inputs, outputs, *arena);
//
// Compiling decides everything: the kernels, the place of each temporary, and the results that are
// written in place. A run allocates nothing. A scan runs the program of its body several times with
// other base addresses. Values that the graph places in host memory (graph/placement.h) leave the
// device while the scan that makes them runs, and return while the scan that reads them runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/backend.h"
#include "runtime/trace.h"

namespace lamina {

// Memory of one input or output of a program, with room for its elements: either `whole`, or
// `pieces`, one per element of the first dim. Only a stacked value (its first dim runs over layers)
// that only scans use may be in pieces.
struct Binding {
  TensorRef whole = {};
  std::span<const TensorRef> pieces = {};  // borrowed
};
// Likewise for inputs, which are not written.
struct ConstBinding {
  ConstTensorRef whole = {};
  std::span<const ConstTensorRef> pieces = {};  // borrowed
};

// The place of a value while a program runs.
struct Location {
  static constexpr int kHost = -3;     // host memory of the program
  static constexpr int kNothing = -2;  // absent, or an output that is never read
  static constexpr int kArena = -1;    // otherwise the number of an input, then of an output
  int space = kNothing;
  std::int64_t offset = 0;  // bytes
};

// A kernel that was not used, and the reason.
struct Refusal {
  std::string kernel;
  std::string why;
};

// A piece of the arena, and the first and last node of the graph that need it.
struct ArenaBlock {
  ValueId value = kNoValue;  // the first value in it; kNoValue: workspace of a node, or counters
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;  // the number of nodes: needed to the end of the run
};

class Program;

// Observes every kernel call. [the thread that runs the program]
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Before and after one iteration of a scan of `graph`: `element` is its index in the stacked
  // operands.
  virtual void enter(const Graph& graph, NodeId scan, std::int64_t element) = 0;
  virtual void leave() = 0;
  // Before the kernel of a node is enqueued. `operands`: one per input, none for an absent one.
  virtual void starts(const Graph&, NodeId, std::span<const ConstTensorRef> /*operands*/) {}
  // After the kernel of a node is enqueued. `results`: one per output, none for an output that is
  // not read.
  virtual void ran(const Graph& graph, NodeId node, std::span<const TensorRef> results) = 0;
  // True if a run may be recorded and then run again without this watcher: in each run it enqueues
  // the same work on the queue of the program. Appends the addresses on which this work depends, if
  // they may change between runs.
  virtual bool can_be_recorded(std::vector<Address>& /*addresses*/) const { return false; }
};

// Lets a watcher observe a program while this exists.
class Watching {
 public:
  Watching(Program& program, Watcher& watcher);
  ~Watching();
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  Program& program_;
};

class StepTimes;

class Program {
 public:
  // Copies the graph. Throws DeviceError (exit 7) if `backend` has no kernel for a node that is
  // neither a view nor a scan. Ops without a kernel must be lowered before (passes/lower.h).
  Program(const Graph& graph, const Backend& backend);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const Graph& graph() const { return *graph_; }
  std::size_t arena_bytes() const { return arena_bytes_; }
  // Size of the arena if no two temporaries shared memory.
  std::size_t unshared_bytes() const { return unshared_bytes_; }
  // Bytes of the temporaries alive at the worst node; no plan can have a smaller arena.
  std::size_t lower_bound_bytes() const { return lower_bound_bytes_; }
  const std::vector<ArenaBlock>& arena_blocks() const { return arena_blocks_; }
  // Bytes of values in host memory; 0 if the device computes there.
  std::size_t host_bytes() const { return host_bytes_; }
  // Bytes that a run copies between host memory and the device, layer by layer, each way.
  double stored_bytes() const;
  double loaded_bytes() const;
  // Allocates the pinned memory of host_bytes(), which the first run does otherwise. Throws
  // DeviceError (exit 7) if there is too little.
  void reserve_host_memory();

  // The program of a scan's body; its arena is in the scan's workspace.
  struct Body {
    NodeId node;
    std::int64_t times;
    const Program* program;  // borrowed from this one
  };
  std::vector<Body> bodies() const;

  // Enqueues all kernel calls. Takes one binding per input and output, in the graph's order; an
  // output that aliases an input is bound to the same memory. `arena` has at least arena_bytes().
  // Only inputs that are aliased are written. Memory that kernels of the backend cannot reach is
  // copied, in one transfer each way; if an output is such memory, its values are complete when
  // run() returns. Otherwise the work may still have to run, in the order of the queue. An input
  // that the graph places in host memory, and an output over it, must be in pinned memory.
  void run(std::span<const ConstBinding> inputs, std::span<const Binding> outputs,
           const Buffer& arena);
  // Likewise if no tensor is in pieces.
  void run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           const Buffer& arena);

  // The queue on which the program runs.
  Queue& queue() const { return *queue_; }

  // Sets the observer of this program and of its bodies of scans. Borrowed; null for none.
  void watch(Watcher* watcher);

  // Returns a table for people: each step, its kernel, the reasons against better kernels, the
  // places of results.
  std::string describe() const;

  // Makes every later run add its events to `trace`, which must stay valid; null: stops.
  void set_trace(Trace* trace);

  // profile() returns the time in each kernel since the last set_profiling() with the same
  // argument, measured by events of the queue; "" if it was never enabled.
  void set_profiling(bool enabled);
  std::string profile() const;

 private:
  struct Step;
  struct Scan;
  struct Planner;
  struct HostPlace;
  struct ProfileRow;
  class Staging;

  // The memory of an input or output in the current run.
  struct Slot {
    Address base = 0;
    const Address* pieces = nullptr;
  };

  Address address(const Location& location, Address arena) const;
  template <typename AnyBinding>
  void place(std::size_t slot, const AnyBinding& binding, const Type& type);
  void check_aliases(std::span<const ConstBinding> inputs, std::span<const Binding> outputs) const;
  void run_steps(std::span<const Slot> slots, Address arena);
  void run_scan(Step& step, Address arena);
  void set_scan_slots(Step& step, Address arena, std::int64_t iteration);
  void load_layer(Step& step, Address workspace);
  void store_layer(Step& step);
  void show_operands(const Step& step) const;
  void show(const Step& step) const;
  void time(const std::shared_ptr<StepTimes>& times);
  void print(std::string& out, int indent) const;
  void collect_profile(std::vector<ProfileRow>& rows, std::set<const Program*>& seen) const;

  std::shared_ptr<const Graph> graph_;
  Queue* queue_ = nullptr;                // owned by the backend
  MemoryKind memory_ = MemoryKind::host;  // the kind of memory that kernels write
  std::vector<Step> steps_;
  // Bindings of the current run: inputs, then outputs.
  std::vector<Slot> bound_;
  std::vector<std::vector<Address>> bound_pieces_;
  std::span<const Slot> slots_;
  std::shared_ptr<HostPlace> host_;  // null if nothing is in host memory
  std::vector<bool> in_host_;        // of bound_: in host memory, used by scans alone
  std::unique_ptr<Staging>
      staging_;  // null in bodies of scans, whose memory the outer program copies
  std::shared_ptr<StepTimes> times_;  // of the current profile or trace, else null
  std::size_t arena_bytes_ = 0;
  std::size_t unshared_bytes_ = 0;
  std::size_t lower_bound_bytes_ = 0;
  std::size_t host_bytes_ = 0;
  std::vector<ArenaBlock> arena_blocks_;
  bool profiling_ = false;
  Trace* trace_ = nullptr;
  Watcher* watcher_ = nullptr;

  friend class StepTimes;
};

// Returns the first kernel of `backend` that accepts the node, or null. Appends the refusals of
// earlier candidates to `refusals`.
const KernelChoice* choose_kernel(const Backend& backend, const NodeView& node,
                                  std::vector<Refusal>* refusals = nullptr);

// Returns true if `backend` has a kernel for the node, or the node is a scan or view, which need
// none.
bool is_supported(const Backend& backend, const Graph& graph, const Node& node);

}  // namespace lamina
