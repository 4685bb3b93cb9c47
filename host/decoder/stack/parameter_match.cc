#include "decoder/stack/parameter_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/suggest.h"

namespace lamina::decoder {
namespace {

// In the order of registry::Role.
constexpr std::array<std::string_view, 8> kRoles = {"weight", "bias",   "norm",   "embedding",
                                                    "head",   "router", "scalar", "conv"};

// Published names of parameters, with the role that selects them.
constexpr std::pair<std::string_view, std::string_view> kPublishedNames[] = {
    {"lm_head", "head"}, {"output", "head"}, {"embed_tokens", "embedding"}, {"wte", "embedding"}};

// The words between dots and stars: "layers", "attention" of "layers.*.attention*".
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (char c : text + '.') {
    if (c != '.' && c != '*') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::exchange(word, ""));
    }
  }
  return out;
}

// Replaces each word of the pattern that no name has by the nearest word that some name has.
std::string nearest_pattern(std::string pattern, const std::vector<Parameter>& parameters) {
  std::set<std::string> known;
  for (const Parameter& p : parameters)
    for (std::string& word : words_of(p.name)) known.insert(std::move(word));
  const std::vector<std::string> words(known.begin(), known.end());
  for (const std::string& word : words_of(pattern))
    if (const std::string near = nearest_name(word, words); !known.contains(word) && !near.empty())
      pattern.replace(pattern.find(word), word.size(), near);
  return pattern;
}

// Returns the name of a parameter of a layer, inside the layer.
std::string a_layer_name(const std::vector<Parameter>& parameters) {
  const auto in_layer =
      std::ranges::find_if(parameters, [](const Parameter& p) { return p.layer >= 0; });
  return in_layer == parameters.end() ? "weight" : in_layer->desc.name;
}

}  // namespace

std::string_view role_name(const Parameter& p) {
  return kRoles[static_cast<std::size_t>(p.desc.role) - 1];
}

bool is_role_name(std::string_view name) { return std::ranges::find(kRoles, name) != kRoles.end(); }

bool fits(const ParameterMatch& match, const Parameter& p) {
  return (!match.match || fnmatch(match.match->c_str(), p.name.c_str(), FNM_EXTMATCH) == 0) &&
         (!match.group || *match.group == p.desc.group) &&
         (!match.role || *match.role == role_name(p));
}

std::string suggestion(const ParameterMatch& match, const std::vector<Parameter>& parameters,
                       MatchSyntax syntax) {
  const auto did_you_mean = [&](std::string_view key, std::string_view prefix,
                                std::string_view value) {
    return syntax == MatchSyntax::keys ? fmt::format("did you mean {} = \"{}\"?", key, value)
                                       : fmt::format("did you mean '{}{}'?", prefix, value);
  };
  std::set<std::string> groups, roles;
  for (const Parameter& p : parameters) {
    if (!p.desc.group.empty()) groups.insert(p.desc.group);
    roles.emplace(role_name(p));
  }
  if (match.group && !groups.contains(*match.group)) {
    if (groups.empty()) return "the model has no groups; give a match or a role";
    const std::string near =
        nearest_name(*match.group, std::vector<std::string>(groups.begin(), groups.end()));
    return near.empty() ? fmt::format("its groups are {}", fmt::join(groups, ", "))
                        : did_you_mean("group", "group:", near);
  }
  if (match.role && !roles.contains(*match.role))
    return fmt::format("its roles are {}", fmt::join(roles, ", "));
  if (!match.match) return "no parameter has this group and this role; give one of them";
  for (const auto& [published, role] : kPublishedNames)
    if ((*match.match == published || *match.match == fmt::format("{}.weight", published)) &&
        roles.contains(std::string(role)))
      return did_you_mean("role", "", role);
  if (syntax == MatchSyntax::rule) {  // one word may be a role
    const std::string role =
        nearest_name(*match.match, std::vector<std::string>(roles.begin(), roles.end()));
    if (!role.empty()) return did_you_mean("role", "", role);
  }
  const std::string near = nearest_pattern(*match.match, parameters);
  const bool any = std::ranges::any_of(parameters, [&](const Parameter& p) {
    return fnmatch(near.c_str(), p.name.c_str(), FNM_EXTMATCH) == 0;
  });
  if (any) return did_you_mean("match", "", near);
  return fmt::format("a pattern must match the whole name, eg: \"{}\" or \"layers.*.{}\"",
                     parameters.front().name, a_layer_name(parameters));
}

}  // namespace lamina::decoder
