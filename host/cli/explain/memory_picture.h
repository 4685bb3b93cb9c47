// A program's memory plan as text.
#pragma once

#include <string>

#include "runtime/program.h"

namespace lamina::cli {

// The arena's size, the minimum that any plan could need, and the `rows` largest blocks as bars
// over the program's steps; then the same of every scan's body, which lies in its scan's workspace.
std::string memory_picture(const Program& program, int rows = 16);

}  // namespace lamina::cli
