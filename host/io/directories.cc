#include "io/directories.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "core/error.h"
#include "core/system_error.h"

namespace lamina::io {
namespace {

// Returns whether the target of a link is missing. One that cannot be looked up now, eg on a
// failing disk, may exist.
bool dangles(const std::string& link) {
  struct stat target {};
  return ::stat(link.c_str(), &target) != 0 &&
         (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
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

std::string dangling_link_in(const std::string& path) {
  std::error_code ignored;
  for (std::filesystem::path at = path; !at.empty(); at = at.parent_path()) {
    const std::filesystem::file_status status = std::filesystem::symlink_status(at, ignored);
    if (std::filesystem::is_symlink(status)) return dangles(at.string()) ? at.string() : "";
    if (std::filesystem::exists(status) || at == at.parent_path()) break;
  }
  return "";
}

void refuse_dangling_link(const std::string& path) {
  if (const std::string link = dangling_link_in(path); !link.empty())
    throw UserError(
        ExitCode::usage,
        {link, "is a dangling link", {"remove the link, or give the name of its target"}});
}

void fail_at(const std::string& path, std::string_view doing, int error_number) {
  const std::string link = dangling_link_in(path);
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}: {}", doing, system_error_text(error_number)),
                     {!link.empty() ? fmt::format("{} is a dangling link: restore its target", link)
                      : error_number == ENOTDIR
                          ? "a part of the path is a file, not a folder; choose another path"
                          : "check the disk and the permissions of the folder"}});
}

}  // namespace lamina::io
