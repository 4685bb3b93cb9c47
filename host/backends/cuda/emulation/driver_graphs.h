// Graphs of the fake driver: work of streams that is captured instead of run.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda {

struct DriverGraph {
  enum class Kind { kernel, copy, fill };
  struct Node {
    Kind kind;
    std::function<void()> run;
    std::vector<std::size_t> after;  // nodes that run before it
  };
  std::vector<Node> nodes;
};

// Work that was launched keeps the nodes, so that an update or the end of the graph does not
// change it.
struct DriverExecutableGraph {
  std::shared_ptr<const DriverGraph> graph;
};

namespace emulation {

// A capture that has begun, shared by its streams and by events in it.
struct WorkCapture {
  StreamHandle origin;
  std::thread::id thread;
  DriverGraph graph;
  bool valid = true;  // false after a call that may not be made meanwhile
  bool ended = false;
};

// The place of a stream or an event in a capture; default: it is in none.
struct CapturePlace {
  std::shared_ptr<WorkCapture> capture;
  std::vector<std::size_t> after;  // the nodes that later work waits for

  bool is_captured() const { return capture && !capture->ended; }
  void add(DriverGraph::Kind kind, std::function<void()> run);
};

// Returns an error, and makes the capture invalid, if this thread captures work: for calls that may
// not be made then, because they wait or change the memory of the GPU.
DriverResult refuse_in_capture();

}  // namespace emulation
}  // namespace lamina::cuda
