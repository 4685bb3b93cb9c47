// Files with one JSON value per line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/json.h"

namespace lamina::cli {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // of a text that is read whole

// Prints for each value of `file` what `line_of` makes of it; "-" is stdin. Lines without anything
// are passed over. Errors (class data): the file cannot be read, or a line is no JSON.
void convert_lines(const std::string& file,
                   const std::function<std::string(const JsonValue&)>& line_of);

}  // namespace lamina::cli
