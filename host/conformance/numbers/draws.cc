#include "conformance/numbers/draws.h"

#include <vector>

#include "conformance/check.h"
#include "conformance/subjects/fingerprint.h"
#include "ops/custom.h"

namespace lamina::conformance {
namespace {

// The origin of a value's elements.
enum class Source { other, constant, random };

Source source_of(const Node& node, const std::vector<Source>& known) {
  if (node.op->def->facts.draws)
    return node.op->num_plugin_inputs == 0 ? Source::random : Source::other;
  if (node.inputs.empty()) return Source::constant;
  Source out = Source::constant;
  for (const ValueId value : node.inputs) {
    if (value == kNoValue) continue;
    if (known[value] == Source::other) return Source::other;
    if (known[value] == Source::random) out = Source::random;
  }
  return out;
}

void require_no_choice(const Graph& graph) {
  std::vector<Source> sources(graph.values().size(), Source::other);
  for (const Node& node : graph.nodes()) {
    const OpDef& def = *node.op->def;
    const Source source = source_of(node, sources);
    if (source == Source::random && def.zero_gradient && !def.facts.draws && !def.facts.moves_data)
      fail(
          "use dropout(x, rate): {}{} chooses by random numbers and constants alone; outside "
          "training random numbers are 0.5, so decoding always makes the same choice",
          node.op->name, node.origin ? " (" + to_string(*node.origin) + ")" : "");
    for (const ValueId output : node.outputs) sources[output] = source;
  }
}

}  // namespace

void check_draws_are_not_compared(const ModelCase& c) {
  const decoder::Model model = c.open(true);
  const Graph graph =
      ops::inline_custom(model.loss_graph({2, 5}, {.training = true, .mtp = true}).graph);
  for_each_graph(graph, require_no_choice);
}

}  // namespace lamina::conformance
