// Memory of a device for values that a program exchanges with the host.
#pragma once

#include <cstddef>

#include "decoder/roles/model_graph.h"
#include "runtime/backend.h"

namespace lamina::inspect {

// Returns the bytes of the inputs that are copied to the device for each run, and of the results
// that are copied to the host; 0 where the device computes in host memory.
std::size_t transfer_bytes(const decoder::ModelGraph& graph, const Backend& backend);

}  // namespace lamina::inspect
