#include "core/without_dots.h"

#include <string>
#include <system_error>

namespace lamina {
namespace fs = std::filesystem;
namespace {

// Returns true if `path` and a ".." after it name the folder of `path`.
bool can_go_back(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  return !name.empty() && name != ".." && name.find_first_of("*?[") == name.npos &&
         !fs::is_symlink(path, error);
}

}  // namespace

fs::path without_dots(const fs::path& path) {
  fs::path out;
  for (const fs::path& part : path) {
    if (part.empty() || part == ".") continue;
    if (part != "..")
      out /= part;
    else if (can_go_back(out))
      out = out.parent_path();
    else if (out.empty() || out.has_filename())  // not the root
      out /= part;
  }
  const fs::path normal = path.lexically_normal();
  if (out.empty()) return normal;
  const bool has_last_slash = !normal.has_filename();
  return has_last_slash && out.has_filename() && out.filename() != ".." ? out / "" : out;
}

}  // namespace lamina
