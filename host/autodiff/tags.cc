#include "autodiff/tags.h"

namespace lamina::autodiff {

std::set<std::string> tags_in(const Graph& graph) {
  std::set<std::string> out;
  for (const Value& value : graph.values())
    if (!value.tag.empty()) out.insert(value.tag);
  for (const Node& node : graph.nodes())
    for (const AttrValue& attr : node.attrs)
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        out.merge(tags_in(**body));
  return out;
}

}  // namespace lamina::autodiff
