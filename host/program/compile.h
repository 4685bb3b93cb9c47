// Compiles a traced graph for a backend.
#pragma once

#include <memory>

#include "passes/pipeline.h"
#include "runtime/program.h"

namespace lamina::program {

// Simplifies the graph, optimises it for the kernels of `backend`, and compiles it. Inputs and
// outputs are unchanged. `observer` sees the graph after every pass.
std::unique_ptr<Program> compile(Graph graph, const Backend& backend,
                                 const passes::Observer& observer = {});

}  // namespace lamina::program
