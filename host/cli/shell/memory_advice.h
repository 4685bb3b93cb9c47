// Advice for a command whose device has too little memory.
#pragma once

#include "cli/shell/command.h"

namespace lamina::cli {

// "use a shorter context (--ctx-size), fewer beams (--beams) or a smaller model": the options of
// the command that need less memory.
std::string memory_advice(const Command& command);

}  // namespace lamina::cli
