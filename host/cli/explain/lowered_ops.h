// Ops of plugins that a backend computes by their lowerings, and the reasons, as text.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "graph/graph.h"
#include "runtime/backend.h"

namespace lamina::cli {

// Observes the passes of a compilation.
class LoweredOps {
 public:
  explicit LoweredOps(const Backend& backend) : backend_(backend) {}

  void operator()(std::string_view pass, const Graph& graph);

  // A title, and a line for each op and reason; "" without such ops.
  std::string text() const;

 private:
  void add(const Node& node, const Graph& graph);

  const Backend& backend_;
  std::set<std::pair<std::string, std::string>> rows_;  // op, reason
};

}  // namespace lamina::cli
