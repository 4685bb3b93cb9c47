// Files with one JSON value per line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/json.h"

namespace lamina::cli {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // the largest text that is read whole

// Prints `line_of(value)` for each value of `file`; "-" is stdin. Skips blank lines. Errors (class
// data): the file cannot be read, or a line is not JSON; the lines before it are printed.
void convert_lines(const std::string& file,
                   const std::function<std::string(const JsonValue&)>& line_of);

}  // namespace lamina::cli
