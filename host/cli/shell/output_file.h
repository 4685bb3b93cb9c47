// Files that the user names for writing, checked before a command begins its work.
#pragma once

#include <string>

#include "io/destination.h"

namespace lamina::cli {

// Returns how `path` is to be written. UserError (exit 2): what io::destination_of() refuses; a
// file that is there and belongs to a run, a checkpoint or a model; a new file inside a checkpoint.
io::Destination check_output_file(const std::string& path);

// The same for a command that checks itself that it replaces only its kind of file: an
// existing file directly in a run or model directory is accepted.
io::Destination check_own_output_file(const std::string& path);

}  // namespace lamina::cli
