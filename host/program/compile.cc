#include "program/compile.h"

namespace lamina::program {

Graph optimized(Graph graph, const Backend& backend, const passes::Observer& observer) {
  const auto supports = [&](const Graph& g, const Node& node) {
    return is_supported(backend, g, node);
  };
  Graph simple = passes::simplify(std::move(graph), observer);
  return passes::optimize(std::move(simple), supports, observer);
}

std::unique_ptr<Program> compile(Graph graph, const Backend& backend,
                                 const passes::Observer& observer) {
  return std::make_unique<Program>(optimized(std::move(graph), backend, observer), backend);
}

}  // namespace lamina::program
