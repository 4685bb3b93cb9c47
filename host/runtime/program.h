// A program: a graph compiled for one backend, a flat list of bound kernel calls over one arena.
//
//   Program program(graph, backend);
//   auto arena = backend.allocate(program.arena_bytes());
//   program.run(inputs, outputs, arena->data());
//
// Compiling decides everything: which kernel, where each temporary lies, what is written in place.
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

// Memory given to a program for one of its inputs or outputs. A stacked one (first dim runs over
// layers) may lie in pieces: then `pieces[i]` is where element i of the first dim starts, and only
// scans may take it.
struct Binding {
  void* base = nullptr;
  void* const* pieces = nullptr;
};

// Where a value lies while a program runs.
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
  // A node's kernel has run; its results, one per output, null where nobody reads one.
  virtual void ran(const Graph& graph, NodeId node, std::span<void* const> results) = 0;
};

class Program {
 public:
  // REQUIRES: every node has a kernel in `backend`, is a view or is a scan (passes/lower.h sees
  // to it). The graph is copied.
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

  // Runs the whole list. One binding per input and output, in the graph's order; an output that
  // aliases an input is given the same memory (its own binding is ignored). `arena` is at least
  // arena_bytes() long and 64-byte aligned. Inputs are not written, except aliased ones.
  void run(std::span<const Binding> inputs, std::span<const Binding> outputs, std::byte* arena);

  // Borrowed; null for none. Bodies of scans are watched, too.
  void watch(Watcher* watcher);

  // A table for people: each step, its kernel, why better ones were refused, where results lie.
  std::string describe() const;

  // From now on every run adds its events to the trace; null: to none. The trace must stay valid
  // as long.
  void set_trace(Trace* trace);

  // Time spent in each kernel since the last call with the same argument; "" when never enabled.
  void set_profiling(bool enabled);
  std::string profile() const;

 private:
  struct Step;
  struct Scan;
  struct Planner;
  struct ProfileRow;

  void* address(const Location& location, std::byte* arena) const;
  void run_scan(Step& step, std::byte* arena);
  void print(std::string& out, int indent) const;
  void collect_profile(std::vector<ProfileRow>& rows) const;

  std::shared_ptr<const Graph> graph_;
  std::vector<Step> steps_;
  std::vector<Binding> bound_;  // of the current run: inputs, then outputs
  std::size_t arena_bytes_ = 0;
  std::size_t unshared_bytes_ = 0;
  std::size_t lower_bound_bytes_ = 0;
  std::vector<ArenaBlock> arena_blocks_;
  bool profiling_ = false;
  Trace* trace_ = nullptr;
  Watcher* watcher_ = nullptr;
};

// The first kernel of `backend` that takes the node, or null; what refused it goes to `refusals`.
const KernelChoice* choose_kernel(const Backend& backend, const NodeView& node,
                                  std::vector<Refusal>* refusals = nullptr);

// Whether `backend` has a kernel for the node; scans and views need none.
bool is_supported(const Backend& backend, const Graph& graph, const Node& node);

}  // namespace lamina
