// Words of commands that are printed to be copied into a shell.
#pragma once

#include <string>

namespace lamina::cli {

// Returns the word, in quotes if a POSIX shell would divide or change it.
std::string shell_word(const std::string& word);

}  // namespace lamina::cli
