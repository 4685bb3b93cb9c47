// The memory of decode state.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "decoder/model.h"
#include "graph/graph.h"
#include "runtime/backend.h"
#include "runtime/memory.h"

namespace lamina::decode {

// Throws UserError (exit 2) if no kernel of the backend writes the keys and values of a decode
// graph in their storage (model.kv_dtype).
void check_state_storage(const Graph& graph, const Backend& backend);

// Decode state in one buffer of a backend.
struct StateTensors {
  std::unique_ptr<Buffer> memory;
  std::vector<TensorRef> tensors;  // in `memory`, one per state
};
StateTensors allocate_states(std::span<const decoder::StateTensor> states, const Backend& backend);

// Returns the bytes that allocate_states() allocates.
std::size_t bytes_of_states(std::span<const decoder::StateTensor> states);

}  // namespace lamina::decode
