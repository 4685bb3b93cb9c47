// The texts for errors of the system.
#pragma once

#include <string>

namespace lamina {

// The note of errors for lack of file descriptors (EMFILE).
inline constexpr const char* kRaiseOpenFiles = "raise the limit on open files (ulimit -n)";

// Returns "no such file or directory" for an errno value: the system's text in lower case.
std::string system_error_text(int error_number);

}  // namespace lamina
