#include "io/directory_commit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/system_error.h"
#include "io/directories.h"
#include "io/durable_file.h"
#include "io/file_lock.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kDeleting = ".deleting";
constexpr std::size_t kRandomDigits = 16;

// Hosts and containers share directories but not process ids or clocks.
std::string random_name() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

bool is_random_name(std::string_view name) {
  return name.size() == kRandomDigits && name.find_first_not_of("0123456789abcdef") == name.npos;
}

// Opens and locks a directory. Returns -1 if it cannot be opened; `locked` is true if we hold the
// lock.
int open_locked(const std::string& path, bool& locked) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  locked = fd >= 0 && try_lock(fd) == 0;
  return fd;
}

// Removes partial directories that killed commands left beside `final_path`. The kernel drops the
// lock of a process when it ends, so a directory that can be locked has no owner. A directory that
// cannot be locked stays.
void remove_abandoned(const std::string& final_path) {
  const std::string prefix = fs::path(final_path).filename().string() + std::string(kPartial);
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(parent_directory(final_path), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !is_random_name(std::string_view(name).substr(prefix.size())))
      continue;
    bool locked = false;
    const int fd = open_locked(entry.path().string(), locked);
    std::error_code failed;
    if (locked) fs::remove_all(entry.path(), failed);
    if (locked && !failed)
      log::info("removed {}, which an interrupted command had left", entry.path().string());
    else if (locked)
      log::warning("{} was left by an interrupted command and cannot be removed: {}",
                   entry.path().string(), system_error_text(failed.value()));
    if (fd >= 0) ::close(fd);
  }
}

}  // namespace

DirectoryCommit::DirectoryCommit(std::string final_path, Above above)
    : final_path_(trimmed_path(std::move(final_path))) {
  if (above == Above::all)
    make_folders_of(final_path_);
  else
    make_folder_of(final_path_);
  remove_abandoned(final_path_);
  while (!make_partial()) {
  }
}

// Returns false if the name is taken, or if another command mistook the directory for an abandoned
// one before it was locked.
bool DirectoryCommit::make_partial() {
  partial_path_ = fmt::format("{}{}{}", final_path_, kPartial, random_name());
  if (::mkdir(partial_path_.c_str(), 0777) != 0) {
    if (errno == EEXIST) return false;
    fail_at(std::exchange(partial_path_, ""), "cannot be created", errno);
  }
  bool locked = false;
  lock_ = open_locked(partial_path_, locked);
  struct stat status {};
  if (lock_ < 0 && errno != ENOENT) {
    const int error_number = errno;
    ::rmdir(partial_path_.c_str());
    fail_at(std::exchange(partial_path_, ""), "cannot be opened", error_number);
  }
  // Unlocked if the file system does not support locks.
  const bool taken = !locked && errno == EWOULDBLOCK;
  if (lock_ >= 0 && !taken && ::fstat(lock_, &status) == 0 && status.st_nlink > 0) return true;
  if (lock_ >= 0) ::close(lock_);
  lock_ = -1;
  return false;
}

DirectoryCommit::~DirectoryCommit() {
  std::error_code ec;
  if (!partial_path_.empty()) fs::remove_all(partial_path_, ec);
  if (lock_ >= 0) ::close(lock_);
}

void DirectoryCommit::commit() {
  LAMINA_ASSERT(!partial_path_.empty());
  sync_directory(partial_path_);
  int renamed =
      ::renameat2(AT_FDCWD, partial_path_.c_str(), AT_FDCWD, final_path_.c_str(), RENAME_NOREPLACE);
  if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) {
    // This file system cannot rename without replacing; a plain rename replaces only an empty
    // directory.
    struct stat status {};
    if (::lstat(final_path_.c_str(), &status) == 0)
      fail_at(final_path_, "cannot be renamed", EEXIST);
    renamed = ::rename(partial_path_.c_str(), final_path_.c_str());
  }
  if (renamed != 0) fail_at(final_path_, "cannot be renamed to its final name", errno);
  const std::string partial_path = std::exchange(partial_path_, "");
  try {
    sync_directory(parent_directory(final_path_));
  } catch (const DeviceError&) {
    // A directory that may not survive a power failure must not block the name for another attempt.
    if (::rename(final_path_.c_str(), partial_path.c_str()) == 0) partial_path_ = partial_path;
    throw;
  }
}

bool is_leftover(std::string_view name) {
  return name.find(kPartial) != name.npos || name.ends_with(kDeleting);
}

void remove_leftovers(const std::string& directory) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ec)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;  // a leftover directory does no harm
    if (is_leftover(name)) fs::remove_all(entry.path(), ignored);
  }
}

void remove_directory(const std::string& path) {
  const std::string doomed = path + std::string(kDeleting);
  std::error_code ec;
  fs::remove_all(doomed, ec);
  if (::rename(path.c_str(), doomed.c_str()) != 0) fail_at(path, "cannot be removed", errno);
  fs::remove_all(doomed, ec);
  if (ec) fail_at(doomed, "cannot be removed", ec.value());
}

}  // namespace lamina::io
