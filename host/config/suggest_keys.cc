#include "config/suggest_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/suggest.h"

namespace lamina::config {

std::vector<std::string> suggest_keys(const Schema& schema, const std::string& typed) {
  if (const std::string nearest = nearest_name(typed, schema.key_names()); !nearest.empty())
    return {fmt::format("did you mean '{}'?", nearest)};
  const std::size_t dot = typed.rfind('.');
  const std::string own_section = dot == typed.npos ? "" : typed.substr(0, dot);
  std::string words = typed.substr(dot == typed.npos ? 0 : dot + 1);
  std::ranges::replace(words, '_', ' ');
  std::vector<std::string> found;
  for (const Section& section : schema.sections)
    for (const Key& key : section.keys) {
      const bool is_namesake = dot == typed.npos && key.name == typed;
      const bool is_described = section.name == own_section && words.find(' ') != words.npos &&
                                key.doc.find(words) != key.doc.npos;
      if (is_namesake || is_described) found.push_back(dotted_name(section, key));
    }
  constexpr std::size_t kMost = 3;
  if (found.empty() || found.size() > kMost) return {};
  return {fmt::format("did you mean '{}'?", fmt::join(found, "' or '"))};
}

}  // namespace lamina::config
