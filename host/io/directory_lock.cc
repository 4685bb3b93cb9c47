#include "io/directory_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "core/error.h"
#include "core/open_file.h"
#include "core/printable.h"
#include "core/system_error.h"
#include "io/directories.h"
#include "io/file_lock.h"

namespace lamina::io {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxHolderBytes = 400;

// "process 4711 on host.example since 2026-03-01 12:00:00 UTC"
std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[32] = "";
  std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return fmt::format("process {} on {} since {}", ::getpid(), host, time);
}

// Returns the text written by the holder; empty before it is written.
std::string holder_of(int fd) {
  std::string text(kMaxHolderBytes, '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return printable(text.substr(0, text.find('\n')), kMaxHolderBytes);
}

}  // namespace

DirectoryLock::DirectoryLock(std::string directory)
    : directory_(trimmed_path(std::move(directory))) {
  refuse_dangling_link(directory_);
  lock();
}

void DirectoryLock::lock() {
  // Another process may remove the file or the directory between our steps; then try again.
  do {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    open_and_lock();
  } while (problem_.empty() && !is_current());
  struct stat directory {};
  if (::stat(directory_.c_str(), &directory) == 0)
    device_ = directory.st_dev, inode_ = directory.st_ino;
  if (!problem_.empty()) return;
  // The text is only for the error of another process; the lock is valid without it.
  const std::string holder = this_process() + "\n";
  if (::ftruncate(fd_, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd_, holder.data(), holder.size(), 0);
}

DirectoryLock::~DirectoryLock() {
  if (!first_made_.empty()) remove_what_was_made();
  if (fd_ >= 0) ::close(fd_);
}

void DirectoryLock::open_and_lock() {
  std::error_code ec;
  for (fs::path path = directory_; !path.empty() && !fs::exists(path, ec);
       path = path.parent_path())
    first_made_ = path.string();
  fs::create_directories(directory_, ec);
  if (ec) fail_at(directory_, "cannot be created", ec.value());
  const std::string path = directory_ + "/" + kLockName;
  fd_ = open_regular_file(path, O_RDWR | O_CREAT);
  const int error = try_lock(fd_);
  if (error == 0) return;
  if (error != EWOULDBLOCK) {
    problem_ = fmt::format("{} cannot be locked: {}; do not start a second run in this directory",
                           directory_, system_error_text(error));
    return;
  }
  const std::string holder = holder_of(fd_);
  ::close(fd_);
  fd_ = -1;
  first_made_.clear();
  throw UserError(ExitCode::checkpoint,
                  {directory_,
                   fmt::format("is in use by {}", holder.empty() ? "another process" : holder),
                   {"wait until it ends or stop it, or choose another --out"}});
}

// Returns whether the locked file is the one that the name refers to.
bool DirectoryLock::is_current() const {
  struct stat ours {
  }, named{};
  return ::fstat(fd_, &ours) == 0 && ::lstat((directory_ + "/" + kLockName).c_str(), &named) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

// Returns whether the locked file has been removed, and no other lock or directory has taken its
// place.
bool DirectoryLock::was_removed() const {
  struct stat ours {
  }, named{}, directory{};
  if (::fstat(fd_, &ours) != 0 || ours.st_nlink > 0) return false;
  if (::lstat((directory_ + "/" + kLockName).c_str(), &named) == 0) return false;
  if (::stat(directory_.c_str(), &directory) != 0) return errno == ENOENT;
  return directory.st_dev == device_ && directory.st_ino == inode_;
}

bool DirectoryLock::renew() {
  std::lock_guard guard(mutex_);
  errno = 0;
  if (is_current()) return false;
  // A temporary disk error is not evidence that the directory was moved.
  if (errno != 0 && errno != ENOENT && errno != ENOTDIR) return false;
  if (!was_removed()) fail_moved();
  lock();
  return true;
}

void DirectoryLock::fail_moved() const {
  ErrorText text{directory_, "was moved or replaced while this process used it", {}};
  std::error_code ec;
  const fs::path now = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd_), ec).parent_path();
  struct stat ours {};
  if (!ec && ::fstat(fd_, &ours) == 0 && ours.st_nlink > 0)
    text.notes.push_back(fmt::format("it is now at {}; nothing was written to {} since",
                                     printable(now.string()), directory_));
  text.notes.push_back(
      "move it back and run the same command again to resume from its newest checkpoint");
  throw UserError(ExitCode::checkpoint, std::move(text));
}

void DirectoryLock::remove_what_was_made() {
  std::error_code ec;
  if (std::distance(fs::directory_iterator(directory_, ec), {}) != 1) return;
  fs::remove(directory_ + "/" + kLockName, ec);
  // Non-empty directories are kept.
  for (fs::path path = directory_;; path = path.parent_path()) {
    if (::rmdir(path.c_str()) != 0 || path == fs::path(first_made_)) return;
  }
}

}  // namespace lamina::io
