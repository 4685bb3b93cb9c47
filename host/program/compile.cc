#include "program/compile.h"

namespace lamina::program {

std::unique_ptr<Program> compile(Graph graph, const Backend& backend,
                                 const passes::Observer& observer) {
  const auto supports = [&](const Graph& g, const Node& node) {
    return is_supported(backend, g, node);
  };
  Graph simple = passes::simplify(std::move(graph), observer);
  return std::make_unique<Program>(passes::optimize(std::move(simple), supports, observer),
                                   backend);
}

}  // namespace lamina::program
