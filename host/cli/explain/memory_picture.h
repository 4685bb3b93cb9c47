// A program's memory plan as text.
#pragma once

#include <string>

#include "runtime/program.h"

namespace lamina::cli {

// The arena's size, the minimum for any plan, and the `rows` largest blocks as bars over the
// program's steps; then the same for every scan's body, which is part of its scan's workspace.
std::string memory_picture(const Program& program, int rows = 16);

}  // namespace lamina::cli
