// From a graph as it was traced to what a backend runs.
#pragma once

#include <memory>

#include "passes/pipeline.h"
#include "runtime/program.h"

namespace lamina::program {

// Simplifies the graph, optimises it for what `backend` has kernels for, and compiles it. Inputs
// and outputs stay as they are. `observer` sees the graph after every pass.
std::unique_ptr<Program> compile(Graph graph, const Backend& backend,
                                 const passes::Observer& observer = {});

}  // namespace lamina::program
