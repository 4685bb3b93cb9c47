#include "core/program_path.h"

#include <sys/auxv.h>

#include <bit>
#include <system_error>

namespace lamina {

std::filesystem::path program_path() {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::path found = fs::read_symlink("/proc/self/exe", error); !error) return found;
  // As given to execve(). A relative path starts at the current folder, which the program never
  // changes.
  const auto* path = std::bit_cast<const char*>(getauxval(AT_EXECFN));
  if (path == nullptr || *path == '\0') return {};
  fs::path found = fs::canonical(path, error);
  return error ? fs::path() : found;
}

}  // namespace lamina
