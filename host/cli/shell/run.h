// Runs one command line from parsing to its exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/shell/command.h"

namespace lamina::cli {

// Returns the exit code of the program for the words after its name. Results are printed to stdout;
// errors, in one form, to stderr, and with --json also as an object to stdout. Never throws.
int run_program(const std::vector<Command>& commands, const std::vector<std::string>& words);

}  // namespace lamina::cli
