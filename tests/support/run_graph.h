// Runs graphs in tests: optimised for a backend, compiled, run once.
//
//   Graph g;
//   Tensor x = g.add_input("x", {DType::f32, {2}, {}});
//   g.add_output("y", ops::exp(x));
//   std::vector<Array> y = run(g, {array({DType::f32, {2}, {}}, {0, 1})});
#pragma once

#include <string_view>
#include <vector>

#include "backends/cpu/backend.h"
#include "core/error.h"
#include "graph/bytes_type.h"
#include "graph/graph.h"
#include "passes/pipeline.h"
#include "runtime/program.h"
#include "support/array.h"

namespace lamina::testing {

inline bool has_kernel(const Backend& backend, const Graph& graph, const Node& node) {
  if (node.op->name == "scan") return true;
  return with_node_view(
      graph, node, [&](const NodeView& view) { return choose_kernel(backend, view) != nullptr; });
}

// Optimises the graph for `backend`, including bodies of scans.
inline Graph optimized_for(const Backend& backend, const Graph& graph) {
  return passes::optimize(passes::simplify(graph), [&](const Graph& g, const Node& node) {
    return has_kernel(backend, g, node);
  });
}

using Doubles = std::vector<double>;

// Returns the named output of a run of `graph`.
inline const Array& output_named(const Graph& graph, const std::vector<Array>& got,
                                 std::string_view name) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (graph.outputs()[i].name == name) return got[i];
  LAMINA_ASSERT(false);
  return got.front();
}

// Runs a compiled program. An output that aliases an input has the contents of the input's memory
// afterwards.
inline std::vector<Array> run(Program& program, const Backend& backend, std::vector<Array> inputs) {
  const Graph& graph = program.graph();
  LAMINA_ASSERT(inputs.size() == graph.inputs().size());
  std::vector<TensorRef> in, out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    LAMINA_ASSERT(inputs[i].type == graph.type(graph.inputs()[i].value));
    in.push_back(host_tensor(inputs[i].data(), inputs[i].type));
  }
  std::vector<Array> outputs;
  for (const GraphOutput& output : graph.outputs())
    outputs.push_back(unwritten(graph.type(output.value)));
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const int alias = graph.outputs()[o].alias_input;
    out.push_back(alias >= 0 ? in[static_cast<std::size_t>(alias)]
                             : host_tensor(outputs[o].data(), outputs[o].type));
  }
  auto arena = backend.allocate(program.arena_bytes());
  backend.context().queue().fill(TensorRef(*arena, 0, bytes_type(program.arena_bytes())),
                                 kUnwritten);
  program.run(std::vector<ConstTensorRef>(in.begin(), in.end()), out, *arena);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (int alias = graph.outputs()[o].alias_input; alias >= 0)
      outputs[o] = inputs[static_cast<std::size_t>(alias)];
  return outputs;
}

// Optimises, compiles and runs.
inline std::vector<Array> run(const Graph& graph, std::vector<Array> inputs,
                              const Backend& backend = cpu::cpu_backend()) {
  Program program(optimized_for(backend, graph), backend);
  return run(program, backend, std::move(inputs));
}

// Compiles the graph unchanged and runs it.
inline std::vector<Array> run_unoptimized(const Graph& graph, std::vector<Array> inputs,
                                          const Backend& backend = cpu::cpu_backend()) {
  Program program(graph, backend);
  return run(program, backend, std::move(inputs));
}

}  // namespace lamina::testing
