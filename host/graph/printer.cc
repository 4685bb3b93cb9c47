#include <fmt/format.h>

#include "graph/graph.h"

namespace lamina {
namespace {

std::string to_string(const AttrValue& value);

template <typename T>
std::string list_to_string(const std::vector<T>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

struct AttrPrinter {
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return fmt::format("{:g}", v); }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const std::vector<std::int64_t>& v) const { return list_to_string(v); }
  std::string operator()(const std::vector<double>& v) const { return list_to_string(v); }
  std::string operator()(const std::shared_ptr<const Graph>& v) const {
    return v ? fmt::format("<{} nodes>", v->nodes().size()) : "<none>";
  }
};

std::string to_string(const AttrValue& value) { return std::visit(AttrPrinter{}, value); }

void print(const Graph& graph, int indent, std::string& out) {
  std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const GraphInput& input : graph.inputs())
    out += fmt::format("{}%{} = input '{}' : {}\n", margin, input.value, input.name,
                       lamina::to_string(graph.type(input.value)));
  for (const Node& node : graph.nodes()) {
    std::vector<std::string> results, operands, attrs, types;
    for (ValueId v : node.outputs) {
      const std::string& tag = graph.value(v).tag;
      results.push_back(fmt::format("%{}", v));
      types.push_back(lamina::to_string(graph.type(v)) + (tag.empty() ? "" : " '" + tag + "'"));
    }
    for (ValueId v : node.inputs) operands.push_back(v == kNoValue ? "-" : fmt::format("%{}", v));
    while (!operands.empty() && operands.back() == "-") operands.pop_back();
    for (std::size_t i = 0; i < node.attrs.size(); ++i)
      if (!same_attr(node.attrs[i], node.op->attrs[i].fallback))
        attrs.push_back(node.op->attrs[i].name + "=" + to_string(node.attrs[i]));
    out += fmt::format("{}{} = {}({})", margin, fmt::join(results, ", "), node.op->name,
                       fmt::join(operands, ", "));
    if (!attrs.empty()) out += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
    out += fmt::format(" : {}", fmt::join(types, ", "));
    if (node.origin) out += "  # " + lamina::to_string(*node.origin);
    out += "\n";
    for (const AttrValue& attr : node.attrs)
      if (auto body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        print(**body, indent + 4, out);
  }
  for (const GraphOutput& output : graph.outputs()) {
    out += fmt::format("{}output '{}' = %{}", margin, output.name, output.value);
    if (output.alias_input >= 0)
      out += fmt::format(" over input {}",
                         graph.inputs()[static_cast<std::size_t>(output.alias_input)].name);
    out += "\n";
  }
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string out;
  print(graph, 0, out);
  return out;
}

}  // namespace lamina
