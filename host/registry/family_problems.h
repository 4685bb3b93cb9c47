// Describes the problems that a family finds in values: the value to change, and the places of the
// other values that the text names.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"
#include "core/error.h"

namespace lamina::registry {

// Returns the error for `problem`, whose `where` is a key. Its place is the value of the latest
// origin of this key and the keys in the text: a setting is the cause, not the file that it
// changes. If none of them is given, the place is `where`. `nulls` are keys with a null in
// config.json.
ErrorText describe_problem(const ErrorText& problem, const config::Resolved& resolved,
                           const std::vector<config::RawSection>& nulls, const std::string& where);

}  // namespace lamina::registry
