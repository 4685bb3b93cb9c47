// Times of the work of programs: one event per kernel call, one per scan around the events of its
// body, and one per copy between host memory and a device (HostTransfers).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace lamina {

struct TraceEvent {
  const Graph* graph = nullptr;         // of the program, borrowed; null for a copy
  std::span<const NodeId> nodes;        // several if the call computed a group; borrowed
  const std::string* kernel = nullptr;  // its name, borrowed; empty for a scan
  std::int64_t iteration = -1;          // of the innermost scan around it; -1 outside of scans
  double begin_seconds = 0;             // since Trace::begin
  double seconds = 0;
  double copied_bytes = 0;  // of a copy

  bool is_copy() const { return graph == nullptr; }
};

// [the thread that runs the programs]
struct Trace {
  double begin = 0;                // Event::seconds() of an event of the device
  std::vector<TraceEvent> events;  // in the order in which they ended
};

}  // namespace lamina
