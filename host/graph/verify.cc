#include <fmt/format.h>

#include "core/error.h"
#include "graph/call.h"
#include "graph/graph.h"

namespace lamina {
namespace {

[[noreturn]] void broken(std::string_view pass, std::string message) {
  throw InternalError({fmt::format("graph after {}", pass), std::move(message), {}});
}

// A scan passes values on to its body, where they are checked.
bool takes(const Call& call, int input) {
  const OpDef& def = *call.op().def;
  if (!call.type(input).storage || def.facts.loops) return true;
  return def.takes_stored && def.takes_stored(call, input);
}

}  // namespace

void verify(const Graph& graph, std::string_view after_pass) {
  std::vector<bool> defined(graph.values().size());
  for (const GraphInput& input : graph.inputs()) defined[input.value] = true;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    std::vector<const Type*> types;
    for (ValueId v : node.inputs) {
      if (v != kNoValue && (v >= defined.size() || !defined[v]))
        broken(after_pass,
               fmt::format("node {} ({}) uses %{} before it is made", n, node.op->name, v));
      types.push_back(v == kNoValue ? nullptr : &graph.type(v));
    }
    const std::vector<OpInput>& inputs = node.op->inputs;
    const bool variadic = !inputs.empty() && inputs.back().variadic;
    if (variadic ? node.inputs.size() + 1 < inputs.size() : node.inputs.size() != inputs.size())
      broken(after_pass, fmt::format("node {} ({}) has {} inputs, expected {}", n, node.op->name,
                                     node.inputs.size(), inputs.size()));
    if (node.attrs.size() != node.op->attrs.size())
      broken(after_pass, fmt::format("node {} ({}) has {} attributes, expected {}", n,
                                     node.op->name, node.attrs.size(), node.op->attrs.size()));
    const Call call(*node.op, types, node.attrs, node.origin.get());
    for (int i = 0; i < call.num_inputs(); ++i)
      if (call.has(i) && !takes(call, i))
        broken(after_pass, fmt::format("node {} ({}) has input {} ({}), which it cannot read", n,
                                       node.op->name, i, to_string(call.type(i))));
    std::vector<Type> results = node.op->def->infer(call);
    if (results.size() != node.outputs.size())
      broken(after_pass, fmt::format("node {} ({}) has {} results, its shape rule says {}", n,
                                     node.op->name, node.outputs.size(), results.size()));
    for (std::size_t i = 0; i < results.size(); ++i) {
      ValueId v = node.outputs[i];
      if (graph.type(v) != results[i])
        broken(after_pass,
               fmt::format("node {} ({}) result {} is {}, its shape rule says {}", n, node.op->name,
                           i, to_string(graph.type(v)), to_string(results[i])));
      defined[v] = true;
    }
    for (const AttrValue& attr : node.attrs)
      if (auto body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        verify(**body, after_pass);
  }
  for (const GraphOutput& output : graph.outputs())
    if (!defined[output.value])
      broken(after_pass, fmt::format("output '{}' is never made", output.name));
}

}  // namespace lamina
