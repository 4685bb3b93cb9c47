#include "autodiff/tags.h"

namespace lamina::autodiff {

std::string_view tag_of(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!value.tag.empty() || value.node == kNoNode) return value.tag;
  const Node& node = graph.node(value.node);
  return node.outputs.back() == id ? node.op->def->facts.last_output_tag : std::string_view{};
}

std::set<std::string> tags_in(const Graph& graph) {
  std::set<std::string> out;
  for (ValueId v = 0; v < graph.values().size(); ++v)
    if (const std::string_view tag = tag_of(graph, v); !tag.empty()) out.emplace(tag);
  for (const Node& node : graph.nodes())
    for (const AttrValue& attr : node.attrs)
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        out.merge(tags_in(**body));
  return out;
}

}  // namespace lamina::autodiff
