// Reads a whole file into memory, with errors that say which file and why.
#pragma once

#include <cstddef>
#include <string>

#include "core/error.h"

namespace lamina {

// The bytes of `path`. Fails with a UserError of class `code` if it does not exist, is not a
// regular file (see open_file.h), may not be read, or holds more than `max_bytes`.
std::string read_file(const std::string& path, ExitCode code,
                      std::size_t max_bytes = std::size_t{1} << 30);

// Likewise everything that comes on stdin, which may be a pipe. Errors: it is closed, or a
// directory.
std::string read_stdin(ExitCode code, std::size_t max_bytes = std::size_t{1} << 30);

}  // namespace lamina
