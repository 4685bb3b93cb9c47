#include "registry/family_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace lamina::registry {
namespace {

bool is_part_of_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Returns the position of the key as a whole word; npos if the text does not have it.
std::size_t find_word(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if ((at == 0 || !is_part_of_key(text[at - 1])) &&
        (end == text.size() || !is_part_of_key(text[end])))
      return at;
  }
  return text.npos;
}

// Returns the given value of the key, then the given values of other keys in the text.
std::vector<const config::Entry*> given_values(const ErrorText& problem,
                                               const config::Table& values) {
  std::vector<std::pair<std::size_t, const config::Entry*>> found;
  for (const config::Entry& entry : values.entries()) {
    if (entry.origin.kind == config::Origin::Kind::preset) continue;
    const std::size_t at = find_word(problem.what, entry.key);
    if (entry.key == problem.where)
      found.emplace_back(0, &entry);
    else if (at != std::string::npos)
      found.emplace_back(at + 1, &entry);
  }
  std::ranges::sort(found);
  std::vector<const config::Entry*> out;
  for (const auto& [at, entry] : found) out.push_back(entry);
  return out;
}

// Returns whether config.json has a null in the place of the key, which gave the value.
bool is_from_null(const config::Entry& entry, const std::string& name,
                  const std::vector<config::RawSection>& nulls) {
  return std::ranges::any_of(nulls, [&](const config::RawSection& null) {
    return null.origin.text == entry.origin.text && null.key == fmt::format("model.{}", name);
  });
}

}  // namespace

ErrorText describe_problem(const ErrorText& problem, const config::Resolved& resolved,
                           const std::vector<config::RawSection>& nulls, const std::string& where) {
  const auto given = given_values(problem, resolved.values);
  const auto cause = std::ranges::max_element(
      given, {}, [](const config::Entry* entry) { return entry->origin.kind; });
  ErrorText out{cause == given.end() ? where : (*cause)->origin.text,
                fmt::format("'{}': {}", problem.where, problem.what), problem.notes};
  for (const config::Entry* entry : given) {
    const auto name = resolved.names.find(entry->key);
    const bool renamed = name != resolved.names.end();
    if (entry != *cause || renamed)
      out.notes.push_back(fmt::format("{} is given{} at {}", entry->key,
                                      renamed ? fmt::format(" as '{}'", name->second) : "",
                                      entry->origin.text));
    if (is_from_null(*entry, renamed ? name->second : entry->key, nulls))
      out.notes.push_back(fmt::format("{} is null at {}, which means {}", entry->key,
                                      entry->origin.text, config::to_toml(entry->value)));
  }
  return out;
}

}  // namespace lamina::registry
