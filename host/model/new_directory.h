// Checks new directories that the user gives for a model with --to.
#pragma once

#include <span>
#include <string>

namespace lamina::model {

// Called before any work is done. UserError (exit 2): an empty name, the name of a file of weights,
// an existing file or directory (also a dangling link), a path among the checkpoints of a run,
// which training would take for one, or a path inside a model or adapter of `sources`.
void check_new_directory(const std::string& to, std::span<const std::string> sources);

}  // namespace lamina::model
