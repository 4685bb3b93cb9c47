// Regular expressions of Python, in which configurations of other programs list modules.
#pragma once

#include <string>
#include <string_view>

namespace lamina::text {

// Returns the pattern with the same meaning for Regex::Dialect::fancy_regex, in which "{,3}" is
// text: it becomes "{0,3}".
std::string from_python(std::string_view pattern);

}  // namespace lamina::text
