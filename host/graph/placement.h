// The place of a value while a program runs.
//
// Values are in the memory of the device. A stacked value may be placed in host memory: one that a
// scan makes, or an input of the graph, and that only scans read. Scans then copy one layer at a
// time. A device that computes in host memory ignores the placement.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace lamina {

// The placement is a tag, because every pass keeps tags. Tags of plugins contain no space.
inline constexpr std::string_view kHostMemoryTag = "host memory";

inline void place_in_host_memory(Graph& graph, ValueId value) {
  graph.set_tag(value, kHostMemoryTag);
}
inline bool is_in_host_memory(const Graph& graph, ValueId value) {
  return graph.value(value).tag == kHostMemoryTag;
}

}  // namespace lamina
