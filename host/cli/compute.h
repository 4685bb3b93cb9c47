// Setting up the machine for commands that compute.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

// Threads as -t says, else as many as the process may use, pinned unless LAMINA_PIN=0.
void apply_threads(const Globals& globals);

}  // namespace lamina::cli
