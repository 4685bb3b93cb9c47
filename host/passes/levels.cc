#include "passes/levels.h"

#include <memory>
#include <unordered_map>

namespace lamina::passes {
namespace {

using Body = std::shared_ptr<const Graph>;

class Levels {
 public:
  explicit Levels(const LevelPass& pass) : pass_(pass) {}

  std::optional<Graph> run(const Graph& graph) {
    std::optional<Graph> changed;
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
      if (!graph.node(n).op->def->facts.loops) continue;
      const Body& body = graph.node(n).body();
      Body made = run_body(body);
      if (made == body) continue;
      if (!changed) changed = graph;
      changed->replace_body(n, std::move(made), {});
    }
    std::optional<Graph> made = pass_(changed ? *changed : graph);
    return made ? std::move(made) : std::move(changed);
  }

 private:
  Body run_body(const Body& body) {
    auto known = done_.find(body.get());
    if (known != done_.end()) return known->second;
    std::optional<Graph> made = run(*body);
    Body out = made ? std::make_shared<const Graph>(*std::move(made)) : body;
    done_.emplace(body.get(), out);
    return out;
  }

  const LevelPass& pass_;
  std::unordered_map<const Graph*, Body> done_;  // bodies of the given graph, which stay alive
};

}  // namespace

Graph on_all_levels(Graph graph, const LevelPass& pass) {
  std::optional<Graph> made = Levels(pass).run(graph);
  return made ? *std::move(made) : std::move(graph);
}

}  // namespace lamina::passes
