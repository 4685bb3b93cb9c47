// Builds help pages of at most 80 columns, with examples.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

std::string program_help(const std::vector<Command>& commands);

// Lists the commands of a group such as "config".
std::string group_help(const std::vector<Command>& commands, const std::string& group);

std::string command_help(const Command& command);

// "usage: lamina config show RUN.toml [options]"
std::string usage_line(const Command& command);

}  // namespace lamina::cli
