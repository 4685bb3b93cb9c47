// Checks files that the user names for writing, before a command begins its work.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/command.h"
#include "io/destination.h"

namespace lamina::cli {

// Returns the way to write `path`. UserError: errors of io::destination_of(), and (exit 2) an
// existing file that belongs to a run, a checkpoint or a model; a new file inside a checkpoint; one
// of `inputs`, the files that the command reads, or an existing file directly in such a directory.
io::Destination check_output_file(const std::string& path,
                                  const std::vector<std::string>& inputs = {});

// A kind of file that a command writes.
struct OwnKind {
  const char* name;  // "a saved conversation"
  bool (*is_of)(const std::string& path);
};
// The same, and UserError for an existing file of another kind that is not empty, so that a
// mistyped name costs nothing.
io::Destination check_output_file(const std::string& path, const std::vector<std::string>& inputs,
                                  const OwnKind& kind);

// The same for a command that checks itself that it replaces only its kind of file: an existing
// file directly in a run or model directory is accepted.
io::Destination check_own_output_file(const std::string& path);

// Returns the values of options that name files to read, for `inputs`.
std::vector<std::string> given_files(const Arguments& a,
                                     const std::vector<std::string_view>& options);

}  // namespace lamina::cli
