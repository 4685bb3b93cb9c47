// One writer at a time in a directory: a lock that the kernel drops when the process ends in any
// way.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>

namespace lamina::io {

inline constexpr const char* kLockName = "lock";

// Locks "<directory>/lock" with flock(2) until it is destroyed or the process ends. The file
// contains the holder; an unlocked file left behind has no meaning. Uses flock and not a record
// lock, because network file systems translate it to one, while some local ones support only flock.
//   DirectoryLock lock("runs/first");
//   if (!lock.problem().empty()) log::warning("{}", lock.problem());
class DirectoryLock {
 public:
  // Creates the directory if it is missing. Errors: UserError of class usage for a dangling link,
  // and of class checkpoint if another process holds the lock, with its name; DeviceError of that
  // class if the file cannot be created, or is a link or a FIFO, which are not followed.
  explicit DirectoryLock(std::string directory);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  // Removes the directories that the constructor created if they are empty.
  ~DirectoryLock();

  // The reason if the directory is not locked: the file system does not support locks. Else empty.
  const std::string& problem() const { return problem_; }

  // Throws UserError of class checkpoint if the directory of this name is no longer the locked one:
  // it was moved or replaced. If it was removed, or only its lock file, creates and locks it again
  // and returns true. Call it before each write by name. [any thread]
  bool renew();

 private:
  void lock();
  void open_and_lock();
  bool is_current() const;
  bool was_removed() const;
  [[noreturn]] void fail_moved() const;
  void remove_what_was_made();

  std::string directory_;
  std::string first_made_;  // the topmost created directory; empty for none
  std::string problem_;
  int fd_ = -1;
  dev_t device_ = 0;  // of the locked directory
  ino_t inode_ = 0;
  std::mutex mutex_;
};

}  // namespace lamina::io
