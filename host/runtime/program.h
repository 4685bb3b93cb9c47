// A program: a graph compiled for one backend, a flat list of bound kernel calls over one arena.
//
//   Program program(graph, backend);
//   auto arena = backend.allocate(program.arena_bytes());
//   program.run(inputs, outputs, *arena);
//
// Compiling decides everything: which kernel, where each temporary is, what is written in place.
// A run allocates nothing. A scan runs the program of its body again and again with other bases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/backend.h"
#include "runtime/trace.h"

namespace lamina {

// Memory given to a program for one of its inputs or outputs, with room for its elements: `whole`,
// or for a stacked one (its first dim runs over layers) `pieces`, one for each element of the first
// dim; only scans may take those.
struct Binding {
  TensorRef whole = {};
  std::span<const TensorRef> pieces = {};  // borrowed
};
// Likewise for inputs, which are not written.
struct ConstBinding {
  ConstTensorRef whole = {};
  std::span<const ConstTensorRef> pieces = {};  // borrowed
};

// Where a value is while a program runs.
struct Location {
  static constexpr int kNothing = -2;  // absent, or an output that nobody reads
  static constexpr int kArena = -1;    // otherwise the number of an input, then of an output
  int space = kNothing;
  std::int64_t offset = 0;  // bytes
};

// One kernel that was passed over, and why.
struct Refusal {
  std::string kernel;
  std::string why;
};

// A piece of the arena, and the nodes of the graph between which it is needed, both included.
struct ArenaBlock {
  ValueId value = kNoValue;  // the first that lies there; kNoValue: workspace of node `first`
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;  // the number of nodes: to the end of the run
};

// Sees every kernel run. [the thread that runs the program]
class Watcher {
 public:
  virtual ~Watcher() = default;
  // A scan of `graph` runs its body for an element of what it runs over; and has.
  virtual void enter(const Graph& graph, NodeId scan, std::int64_t element) = 0;
  virtual void leave() = 0;
  // A node's kernel is enqueued; its results, one per output, none where an output is not read.
  virtual void ran(const Graph& graph, NodeId node, std::span<const TensorRef> results) = 0;
};

class StepTimes;

class Program {
 public:
  // The graph is copied. Throws DeviceError (exit 7) where a node has no kernel in `backend` and is
  // neither a view nor a scan: the lowering of ops (passes/lower.h) ends at one that has none.
  Program(const Graph& graph, const Backend& backend);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  const Graph& graph() const { return *graph_; }
  std::size_t arena_bytes() const { return arena_bytes_; }
  // What the arena would need if no two temporaries shared memory.
  std::size_t unshared_bytes() const { return unshared_bytes_; }
  // The memory of the temporaries alive at the worst node: no plan can have a smaller arena.
  std::size_t lower_bound_bytes() const { return lower_bound_bytes_; }
  const std::vector<ArenaBlock>& arena_blocks() const { return arena_blocks_; }

  // The program of a scan's body; its arena lies in the scan's workspace.
  struct Body {
    NodeId node;
    std::int64_t times;
    const Program* program;  // borrowed from this one
  };
  std::vector<Body> bodies() const;

  // Enqueues the whole list. One binding per input and output, in the graph's order; an output that
  // aliases an input is bound to the same memory. `arena` is at least arena_bytes() long. Inputs
  // are not written, except aliased ones. Memory that kernels of the backend cannot reach is
  // copied, in one transfer each way; where an output is such memory, its values are there when
  // run() returns. Otherwise the work may still have to run, in the order of the queue.
  void run(std::span<const ConstBinding> inputs, std::span<const Binding> outputs,
           const Buffer& arena);
  // Likewise for tensors that are whole.
  void run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
           const Buffer& arena);

  // The queue on which it runs.
  Queue& queue() const { return *queue_; }

  // Borrowed; null for none. Bodies of scans are watched, too.
  void watch(Watcher* watcher);

  // A table for people: each step, its kernel, why better ones were refused, where results lie.
  std::string describe() const;

  // From now on every run adds its events to the trace; null: to none. The trace must stay valid
  // as long.
  void set_trace(Trace* trace);

  // Time spent in each kernel since the last call with the same argument, by events of the queue;
  // "" when never enabled.
  void set_profiling(bool enabled);
  std::string profile() const;

 private:
  struct Step;
  struct Scan;
  struct Planner;
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
  void show(const Step& step) const;
  void time(const std::shared_ptr<StepTimes>& times);
  void print(std::string& out, int indent) const;
  void collect_profile(std::vector<ProfileRow>& rows) const;

  std::shared_ptr<const Graph> graph_;
  Queue* queue_ = nullptr;                // of the backend
  MemoryKind memory_ = MemoryKind::host;  // of what kernels write
  std::vector<Step> steps_;
  // Of the current run: inputs, then outputs.
  std::vector<Slot> bound_;
  std::vector<std::vector<Address>> bound_pieces_;
  std::span<const Slot> slots_;
  std::unique_ptr<Staging> staging_;  // null in bodies of scans
  std::shared_ptr<StepTimes> times_;  // of the current profile or trace, else null
  std::size_t arena_bytes_ = 0;
  std::size_t unshared_bytes_ = 0;
  std::size_t lower_bound_bytes_ = 0;
  std::vector<ArenaBlock> arena_blocks_;
  bool profiling_ = false;
  Trace* trace_ = nullptr;
  Watcher* watcher_ = nullptr;

  friend class StepTimes;
};

// The first kernel of `backend` that takes the node, or null; what refused it goes to `refusals`.
const KernelChoice* choose_kernel(const Backend& backend, const NodeView& node,
                                  std::vector<Refusal>* refusals = nullptr);

// Whether `backend` has a kernel for the node; scans and views need none.
bool is_supported(const Backend& backend, const Graph& graph, const Node& node);

}  // namespace lamina
