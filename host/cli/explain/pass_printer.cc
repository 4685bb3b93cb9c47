#include "cli/explain/pass_printer.h"

#include <fmt/format.h>

#include "cli/shell/terminal.h"

namespace lamina::cli {

void PassPrinter::operator()(std::string_view pass, const Graph& graph) {
  if (!enabled_) return;
  std::string text = to_string(graph);
  if (text == last_) {
    print(fmt::format("== after '{}': unchanged\n\n", pass));
    return;
  }
  print(fmt::format("== {}: {} nodes\n{}\n",
                    last_.empty() ? std::string(pass) : fmt::format("after '{}'", pass),
                    graph.nodes().size(), text));
  last_ = std::move(text);
}

}  // namespace lamina::cli
