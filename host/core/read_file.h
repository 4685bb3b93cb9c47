// Reads a whole file into memory, with errors that say which file and why.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lamina {

// The bytes of `path`. Fails with a UserError of class `code` if it does not exist, is not a
// regular file (see open_file.h), may not be read, or holds more than `max_bytes`.
std::string read_file(const std::string& path, ExitCode code,
                      std::size_t max_bytes = std::size_t{1} << 30);

// Likewise everything that comes on stdin, which may be a pipe. Errors: it is closed, or a
// directory.
std::string read_stdin(ExitCode code, std::size_t max_bytes = std::size_t{1} << 30);

// "no such file or directory" for an errno value: the system's words in lower case.
std::string system_error_text(int error_number);

// `text` fit to print: control characters and invalid UTF-8 as \xNN, cut after `max_bytes` with
// "...". A terminal obeys some of them: names of files, keys and tokens come from anywhere.
std::string printable(std::string_view text, std::size_t max_bytes = 120);
// Likewise, whole, with its line feeds and tabs: for text that is laid out already.
std::string printable_lines(std::string_view text);

}  // namespace lamina
