// The list of subcommands. To add one: a file cmd_<name>.cc in a folder of host/cli with a function
//
//   Command greet_command() { return {.name = "greet", ...}; }
//
// whose name ends in _command. The build collects them.
#pragma once

#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

// In the order in which help lists them: by folder, then by file.
const std::vector<Command>& all_commands();

}  // namespace lamina::cli
