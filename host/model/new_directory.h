// Directories that the user names with --to for a model that is written.
#pragma once

#include <string>

namespace lamina::model {

// Called before any work is done. UserError (exit 2): an empty name, something that is there (also
// a link to nothing), or a place among the checkpoints of a run, which training would take for one.
void check_new_directory(const std::string& to);

}  // namespace lamina::model
