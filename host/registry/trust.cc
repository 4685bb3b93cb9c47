#include "registry/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lamina::registry {

std::string writable_by_anyone(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & S_IWOTH))
    return fmt::format("any user can change '{}', and this program runs as root", path.string());
  const std::filesystem::path folder = path.parent_path();
  if (::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) &&
      !(status.st_mode & S_ISVTX))
    return fmt::format("any user can replace files in '{}', and this program runs as root",
                       folder.string());
  return "";
}

std::string owned_by_another(const std::filesystem::path& path) {
  for (const std::filesystem::path& part : {path, path.parent_path()}) {
    struct stat status {};
    if (::stat(part.c_str(), &status) == 0 && status.st_uid != 0 && status.st_uid != ::geteuid())
      return fmt::format(
          "'{}' belongs to user {}, who can change it, and this program runs as root",
          part.string(), status.st_uid);
  }
  return "";
}

}  // namespace lamina::registry
