// Reads a whole file into memory, with errors that say which file and why.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lamina {

// The bytes of `path`. Fails with a UserError of class `code` if it does not exist, is a directory,
// may not be read, or holds more than `max_bytes`.
std::string read_file(const std::string& path, ExitCode code,
                      std::size_t max_bytes = std::size_t{1} << 30);

// "no such file or directory" for an errno value: the system's words in lower case.
std::string system_error_text(int error_number);

// `text` fit to print: control bytes and invalid UTF-8 as \xNN, cut after `max_bytes` with "...".
std::string printable(std::string_view text, std::size_t max_bytes = 120);

}  // namespace lamina
