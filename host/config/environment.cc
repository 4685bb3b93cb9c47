// The process's environment as a list.
#include <unistd.h>

#include "config/raw.h"

namespace lamina::config {

std::vector<std::string> process_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; variable && *variable; ++variable) out.emplace_back(*variable);
  return out;
}

}  // namespace lamina::config
