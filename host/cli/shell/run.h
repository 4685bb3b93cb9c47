// Runs one command line from parse to exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

// The exit code of the program for the words after its name. Results go to stdout; errors, in one
// form, to stderr, and with --json also as an object to stdout. Never throws.
int run_program(const std::vector<Command>& commands, const std::vector<std::string>& words,
                const Machine& machine);

}  // namespace lamina::cli
