// Parses command lines: finds the command, checks its options, reports errors.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

// -h, --version, -q, -v, --color, -t, --plugin, --plugin-path: accepted by every command.
const std::vector<Option>& global_options();

// The contents of a command line.
struct Request {
  enum class Kind {
    run,   // `command` with `arguments`
    help,  // for `command`, for the group `group`, or, with neither, for the program
    version,
    nothing,  // no command at all, or a group without its second word
  };
  Kind kind = Kind::nothing;
  const Command* command = nullptr;
  std::string group;
  bool json = false;
  Arguments arguments;
};

// Parses the words after the program's name. UserError (exit 2) for unknown commands and options
// (with the nearest right one), missing or unexpected values, values of the wrong type or out of
// range, options given twice, missing or unexpected arguments. Abbreviations are not accepted; `_`
// is accepted for `-` in option names.
Request parse_command_line(const std::vector<Command>& commands,
                           const std::vector<std::string>& words);

}  // namespace lamina::cli
