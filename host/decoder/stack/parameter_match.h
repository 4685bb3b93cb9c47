// Chooses parameters by name, group or role: the words of [[optimizer.groups]] and of
// --quantize-rule.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/stack/parameter.h"

namespace lamina::decoder {

// All that are given must fit.
struct ParameterMatch {
  std::optional<std::string> match = {};  // a pattern of the whole name (fnmatch)
  std::optional<std::string> group = {};  // ParamDesc::group
  std::optional<std::string> role = {};   // role_name()
};

// "weight", "bias", "norm", "embedding", "head", "router", "scalar" or "conv".
std::string_view role_name(const Parameter& p);
// Returns whether some parameter could have the role.
bool is_role_name(std::string_view name);

bool fits(const ParameterMatch& match, const Parameter& p);

// The syntax of a match: match = "..*" and group = "..", or a rule of --quantize-rule.
enum class MatchSyntax { keys, rule };

// Returns a hint for a match that fits none of the parameters, eg: the nearest name.
std::string suggestion(const ParameterMatch& match, const std::vector<Parameter>& parameters,
                       MatchSyntax syntax);

}  // namespace lamina::decoder
