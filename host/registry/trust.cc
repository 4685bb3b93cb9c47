#include "registry/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <ranges>
#include <set>
#include <system_error>
#include <vector>

namespace lamina::registry {
namespace {

namespace fs = std::filesystem;

// A file, folder or link, without links in its path.
struct Place {
  fs::path path;
  struct stat status;
};

// Returns the file, the links on the way to it, and the folders that contain one of them, the file
// first. Places that do not exist are omitted. Folders further up are left to the administrator:
// some systems mount workspaces that are open to all.
std::vector<Place> places_to(const fs::path& file) {
  constexpr int kMostLinks = 40;  // as on Linux
  std::vector<Place> passed;
  const fs::path whole = fs::absolute(file);
  std::deque<fs::path> rest(whole.begin(), whole.end());
  fs::path at;
  for (int links = 0; !rest.empty();) {
    const fs::path name = rest.front();
    rest.pop_front();
    if (name == "..") at = at.parent_path();
    if (name.empty() || name == "." || name == "..") continue;
    const fs::path next = at / name;  // the root, if the name is "/"
    Place place{next, {}};
    if (::lstat(next.c_str(), &place.status) == 0) {
      passed.push_back(place);
      std::error_code error;
      const fs::path target =
          S_ISLNK(place.status.st_mode) ? fs::read_symlink(next, error) : fs::path();
      if (!target.empty()) {
        if (++links > kMostLinks) break;
        rest.insert(rest.begin(), target.begin(), target.end());
        continue;
      }
    }
    at = next;
  }
  std::vector<Place> out;
  std::set<fs::path> folders;  // of the file and the links
  const auto is_link = [](const Place& place) { return S_ISLNK(place.status.st_mode); };
  for (const Place& place : passed)
    if (is_link(place) || &place == &passed.back()) folders.insert(place.path.parent_path());
  for (const Place& place : passed | std::views::reverse)
    if (is_link(place) || &place == &passed.back() || folders.contains(place.path))
      out.push_back(place);
  return out;
}

}  // namespace

std::string writable_by_anyone(const fs::path& path) {
  for (const Place& place : places_to(path)) {
    const mode_t mode = place.status.st_mode;
    if (S_ISLNK(mode) || !(mode & S_IWOTH)) continue;
    if (!S_ISDIR(mode))
      return fmt::format("any user can change '{}', and this program runs as root",
                         place.path.string());
    if (!(mode & S_ISVTX))
      return fmt::format("any user can replace files in '{}', and this program runs as root",
                         place.path.string());
  }
  return "";
}

std::string owned_by_another(const fs::path& path) {
  for (const Place& place : places_to(path))
    if (place.status.st_uid != 0 && place.status.st_uid != ::geteuid())
      return fmt::format(
          "'{}' belongs to user {}, who can change it, and this program runs as root",
          place.path.string(), place.status.st_uid);
  return "";
}

}  // namespace lamina::registry
