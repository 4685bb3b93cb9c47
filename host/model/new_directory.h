// Checks new directories that the user gives for a model with --to.
#pragma once

#include <string>

namespace lamina::model {

// Called before any work is done. UserError (exit 2): an empty name, the name of a file of weights,
// an existing file or directory (also a dangling link), or a path among the checkpoints of a run,
// which training would take for one.
void check_new_directory(const std::string& to);

}  // namespace lamina::model
