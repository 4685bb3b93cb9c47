#include "io/directory_commit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/error.h"
#include "core/read_file.h"
#include "io/durable_file.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kDeleting = ".deleting";

[[noreturn]] void fail(const std::string& path, std::string_view doing, int error_number) {
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}: {}", doing, system_error_text(error_number)),
                     {"check the disk and the permissions of the directory"}});
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// True if `name` is a partial directory whose process no longer runs.
// Gone, or killed and only waiting for its parent to notice (in a container perhaps forever).
bool is_dead(pid_t pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(stat, line);
  const auto name_end = line.rfind(") ");
  return name_end != line.npos && line.substr(name_end + 2, 1) == "Z";
}

bool is_abandoned(const std::string& name) {
  const auto at = name.rfind(kPartial);
  if (at == name.npos) return false;
  pid_t pid = 0;
  const char* digits = name.data() + at + kPartial.size();
  std::from_chars(digits, name.data() + name.size(), pid);
  return pid > 0 && is_dead(pid);
}

}  // namespace

DirectoryCommit::DirectoryCommit(std::string final_path) : final_path_(std::move(final_path)) {
  while (final_path_.size() > 1 && final_path_.ends_with('/')) final_path_.pop_back();
  static std::atomic<unsigned> next_number{0};
  const std::string name =
      fmt::format("{}{}{}-{}", final_path_, kPartial, ::getpid(), next_number++);
  std::error_code ec;
  fs::create_directories(parent_of(name), ec);
  if (ec) fail(parent_of(name), "cannot be created", ec.value());
  if (::mkdir(name.c_str(), 0777) != 0 && errno != EEXIST) fail(name, "cannot be created", errno);
  partial_path_ = name;
}

DirectoryCommit::~DirectoryCommit() {
  std::error_code ec;
  if (!partial_path_.empty()) fs::remove_all(partial_path_, ec);
}

void DirectoryCommit::commit() {
  LAMINA_ASSERT(!partial_path_.empty());
  sync_directory(partial_path_);
  int renamed =
      ::renameat2(AT_FDCWD, partial_path_.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_NOREPLACE);
  if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) {
    // This file system cannot refuse to replace; plain rename replaces an empty directory only.
    struct stat status {};
    if (::lstat(final_path_.c_str(), &status) == 0) fail(final_path_, "cannot be renamed", EEXIST);
    renamed = ::rename(partial_path_.c_str(), final_path_.c_str());
  }
  if (renamed != 0) fail(final_path_, "cannot be renamed to its final name", errno);
  partial_path_.clear();
  sync_directory(parent_of(final_path_));
}

void remove_leftovers(const std::string& directory) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ec)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;  // a leftover that cannot be removed harms nobody
    if (is_abandoned(name) || name.ends_with(kDeleting)) fs::remove_all(entry.path(), ignored);
  }
}

void remove_directory(const std::string& path) {
  const std::string doomed = path + std::string(kDeleting);
  std::error_code ec;
  fs::remove_all(doomed, ec);
  if (::rename(path.c_str(), doomed.c_str()) != 0) fail(path, "cannot be removed", errno);
  fs::remove_all(doomed, ec);
  if (ec) fail(doomed, "cannot be removed", ec.value());
}

}  // namespace lamina::io
