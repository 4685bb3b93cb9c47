// One writer at a time in a directory: a lock that the kernel drops with the process, however that
// ends.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>

namespace lamina::io {

inline constexpr const char* kLockName = "lock";

// Holds "<directory>/lock" by flock(2) until it is destroyed or the process ends. The file tells
// who holds it; it stays behind and means nothing by itself. flock and not a record lock, because
// network file systems translate it to one anyway while some local ones have nothing else.
//   DirectoryLock lock("runs/first");
//   if (!lock.problem().empty()) log::warning("{}", lock.problem());
class DirectoryLock {
 public:
  // Makes the directory where there is none. UserError of class checkpoint where another process
  // holds the lock, naming it; DeviceError of that class where the file cannot be made, or is a
  // link or a FIFO, which is not written through.
  explicit DirectoryLock(std::string directory);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  // Removes the directories that the constructor made where nothing else was put into them.
  ~DirectoryLock();

  // Why the directory is not locked: the file system has no locks. Empty where it is.
  const std::string& problem() const { return problem_; }

  // Throws UserError of class checkpoint where the directory of that name is not the one that was
  // locked: it was moved, or another stands there. Where it was removed, or only the lock in it
  // was, makes and locks it again and returns true. Call it before each write by name. [any thread]
  bool renew();

 private:
  void lock();
  void open_and_lock();
  bool is_current() const;
  bool was_removed() const;
  [[noreturn]] void fail_moved() const;
  void remove_what_was_made();

  std::string directory_;
  std::string first_made_;  // the topmost directory that was made; empty for none
  std::string problem_;
  int fd_ = -1;
  dev_t device_ = 0;  // of the directory that was locked
  ino_t inode_ = 0;
  std::mutex mutex_;
};

}  // namespace lamina::io
