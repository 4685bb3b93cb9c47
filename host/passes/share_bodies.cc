#include "passes/share_bodies.h"

#include "passes/bodies.h"

namespace lamina::passes {

Graph share_bodies(const Graph& graph) {
  detail::BodyMap shared;
  std::vector<std::shared_ptr<const Graph>> distinct;
  for (const auto& body : detail::scan_bodies(graph)) {
    if (shared.contains(body.get())) continue;
    std::shared_ptr<const Graph> same;
    for (const auto& known : distinct)
      if (same_graph(*known, *body)) same = known;
    if (!same) {
      same = std::make_shared<const Graph>(share_bodies(*body));
      distinct.push_back(same);
    }
    shared.emplace(body.get(), same);
  }
  return detail::replace_bodies(graph, shared);
}

}  // namespace lamina::passes
