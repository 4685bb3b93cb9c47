#include "passes/pipeline.h"

#include <cstdlib>
#include <string_view>

#include "passes/common_subexpressions.h"
#include "passes/dead_code.h"
#include "passes/fuse_cache_writes.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_linears.h"
#include "passes/fuse_residual.h"
#include "passes/hoist.h"
#include "passes/join_pads.h"
#include "passes/lower.h"
#include "passes/share_bodies.h"

namespace lamina::passes {
namespace {

bool check_everything() {
  const char* level = std::getenv("LAMINA_CHECK");
  return level && std::string_view(level) == "max";
}

class Pipeline {
 public:
  Pipeline(Graph graph, const Observer& observer) : graph_(std::move(graph)), observer_(observer) {}

  template <typename Pass>
  Pipeline& run(std::string_view name, Pass pass) {
    graph_ = pass(std::move(graph_));
    if (check_everything()) verify(graph_, name);
    if (observer_) observer_(name, graph_);
    return *this;
  }

  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
  const Observer& observer_;
};

}  // namespace

Graph simplify(Graph graph, const Observer& observer) {
  return Pipeline(std::move(graph), observer)
      .run("lower syntactic sugar", lower_spellings)
      .run("merge common subexpressions", merge_common_subexpressions)
      .run("hoist from scans", hoist_from_scans)
      .run("merge common subexpressions", merge_common_subexpressions)
      .run("remove dead code", remove_dead_code)
      .take();
}

Graph optimize(Graph graph, const std::function<bool(const Graph&, const Node&)>& supports,
               const Observer& observer) {
  return Pipeline(std::move(graph), observer)
      .run("fuse residual sums", fuse_residual)
      .run("group linears", group_linears)
      .run("fuse cache writes", fuse_cache_writes)
      .run("lower ops without a kernel", [&](Graph g) { return lower(std::move(g), supports); })
      .run("merge common subexpressions", merge_common_subexpressions)
      .run("join pads", join_pads)
      .run("remove dead code", remove_dead_code)
      .run("fuse elementwise", fuse_elementwise)
      .run("remove dead code", remove_dead_code)
      .run("share bodies", share_bodies)
      .take();
}

}  // namespace lamina::passes
