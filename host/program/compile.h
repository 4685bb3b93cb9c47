// Compiles a traced graph for a backend.
#pragma once

#include <memory>

#include "passes/pipeline.h"
#include "runtime/program.h"

namespace lamina::program {

// Simplifies the graph, and optimises it for the kernels of `backend`. Inputs and outputs are
// unchanged. `observer` sees the graph after every pass.
Graph optimized(Graph graph, const Backend& backend, const passes::Observer& observer = {});
// Compiles the optimised graph.
std::unique_ptr<Program> compile(Graph graph, const Backend& backend,
                                 const passes::Observer& observer = {});

}  // namespace lamina::program
