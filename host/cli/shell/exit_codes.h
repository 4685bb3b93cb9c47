// The meaning of each exit code, for help pages and docs/exit_codes.md.
#pragma once

#include <span>
#include <string_view>

#include "core/error.h"

namespace lamina::cli {

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view name;     // the class in JSON error objects
  std::string_view meaning;  // one line
};

// In rising order.
std::span<const ExitCodeMeaning> exit_codes();

std::string_view name_of(ExitCode code);

}  // namespace lamina::cli
