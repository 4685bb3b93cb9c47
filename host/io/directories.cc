#include "io/directories.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>

#include "core/error.h"
#include "core/system_error.h"

namespace lamina::io {
namespace {

// Returns the dangling link at `path` or above it; "" if there is none.
std::string dangling_link_in(const std::string& path) {
  std::error_code ignored;
  for (std::filesystem::path at = path; !at.empty(); at = at.parent_path()) {
    const std::filesystem::file_status status = std::filesystem::symlink_status(at, ignored);
    if (!std::filesystem::exists(status)) {
      if (at == at.parent_path()) break;
      continue;
    }
    const bool dangles =
        std::filesystem::is_symlink(status) && !std::filesystem::exists(at, ignored);
    return dangles ? at.string() : "";
  }
  return "";
}

}  // namespace

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string trimmed_path(std::string path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
  return path;
}

void make_folder(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directory(path, ec);
  if (ec) fail_at(path, "cannot be created", ec.value());
}

void make_folder_of(const std::string& path) { make_folder(parent_directory(path)); }

void make_folders_of(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(parent_directory(path), ec);
  if (ec) fail_at(parent_directory(path), "cannot be created", ec.value());
}

void fail_at(const std::string& path, std::string_view doing, int error_number) {
  if (const std::string link = dangling_link_in(path); !link.empty())
    throw UserError(
        ExitCode::usage,
        {link, "is a dangling link", {"remove the link, or give the name of its target"}});
  throw DeviceError(
      ExitCode::checkpoint,
      {path,
       fmt::format("{}: {}", doing, system_error_text(error_number)),
       {error_number == ENOTDIR ? "a part of the path is a file, not a folder; choose another path"
                                : "check the disk and the permissions of the folder"}});
}

}  // namespace lamina::io
