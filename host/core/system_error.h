// What the system says of an error of its own.
#pragma once

#include <string>

namespace lamina {

// "no such file or directory" for an errno value: the system's words in lower case.
std::string system_error_text(int error_number);

}  // namespace lamina
