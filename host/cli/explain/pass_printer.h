// Prints a graph after each pass that changed it.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace lamina::cli {

class PassPrinter {
 public:
  explicit PassPrinter(bool enabled) : enabled_(enabled) {}
  void operator()(std::string_view pass, const Graph& graph);

 private:
  bool enabled_;
  std::string last_;
};

}  // namespace lamina::cli
