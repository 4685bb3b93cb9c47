// Graphs inside graphs: every pass works on the bodies of scans first.
#pragma once

#include <memory>
#include <unordered_map>

#include "graph/graph.h"

namespace lamina::passes {

// A copy of `graph` in which the body of every scan is what `pass(body)` returns. A body shared by
// several scans is transformed once and stays shared.
template <typename Pass>
Graph with_bodies(const Graph& graph, Pass pass);

namespace detail {
using BodyMap = std::unordered_map<const Graph*, std::shared_ptr<const Graph>>;
Graph replace_bodies(const Graph& graph, const BodyMap& bodies);
std::vector<std::shared_ptr<const Graph>> scan_bodies(const Graph& graph);
}  // namespace detail

template <typename Pass>
Graph with_bodies(const Graph& graph, Pass pass) {
  detail::BodyMap bodies;
  for (const auto& body : detail::scan_bodies(graph))
    if (!bodies.contains(body.get()))
      bodies.emplace(body.get(), std::make_shared<const Graph>(pass(*body)));
  return detail::replace_bodies(graph, bodies);
}

}  // namespace lamina::passes
