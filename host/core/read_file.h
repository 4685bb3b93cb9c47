// Reads a file, or its beginning, into memory; errors give the file and the reason.
#pragma once

#include <cstddef>
#include <string>

#include "core/error.h"

namespace lamina {

// Returns the bytes of `path`. Errors: a UserError of class `code` if it does not exist, is not a
// regular file (see open_file.h), cannot be read, or has more than `max_bytes`.
std::string read_file(const std::string& path, ExitCode code,
                      std::size_t max_bytes = std::size_t{1} << 30);

// Returns the first `num_bytes` of `path`, which identify its format; all of a shorter file.
// Errors: likewise, so that a file that cannot be opened is not taken for one of another format.
std::string read_beginning(const std::string& path, ExitCode code, std::size_t num_bytes);

// Returns all bytes from stdin, which may be a pipe. Errors: it is closed, or a directory.
std::string read_stdin(ExitCode code, std::size_t max_bytes = std::size_t{1} << 30);

// For programs that read stdin in pieces: throws the errors of read_stdin(), before the first piece
// because stdin is closed, or at the end of the input because a read failed.
void check_stdin(ExitCode code);

}  // namespace lamina
