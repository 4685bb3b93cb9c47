// Words of commands that are printed to be copied into a shell.
#pragma once

#include <string>

namespace lamina::cli {

// Returns the word, in quotes if a POSIX shell would divide or change it.
std::string shell_word(const std::string& word);

// Returns shell_word() of a path without an option before it: "./-a" for "-a", which would be read
// as an option.
std::string shell_path(const std::string& path);

}  // namespace lamina::cli
