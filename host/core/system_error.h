// The system's text for its errors.
#pragma once

#include <string>

namespace lamina {

// Returns "no such file or directory" for an errno value: the system's text in lower case.
std::string system_error_text(int error_number);

}  // namespace lamina
