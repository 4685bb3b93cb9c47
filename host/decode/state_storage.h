// Checks that a backend can keep decode state in fewer bits.
#pragma once

#include "graph/graph.h"
#include "runtime/backend.h"

namespace lamina::decode {

// Throws UserError (exit 2) if no kernel of the backend writes the keys and values of a decode
// graph in their storage (model.kv_dtype).
void check_state_storage(const Graph& graph, const Backend& backend);

}  // namespace lamina::decode
