#include "config/suggest_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/suggest.h"

namespace lamina::config {
namespace {

// Names the keys of a section, if it exists and they are not too many for a note.
std::vector<std::string> all_keys(const Schema& schema, const std::string& section) {
  constexpr std::size_t kMost = 12;
  for (const Section& each : schema.sections) {
    if (section.empty() || each.name != section || each.keys.size() > kMost) continue;
    std::vector<std::string> names;
    for (const Key& key : each.keys) names.push_back(key.name);
    return {fmt::format("the keys of [{}] are {}", section, fmt::join(names, ", "))};
  }
  return {};
}

}  // namespace

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
  if (found.empty() || found.size() > kMost) return all_keys(schema, own_section);
  return {fmt::format("did you mean '{}'?", fmt::join(found, "' or '"))};
}

}  // namespace lamina::config
