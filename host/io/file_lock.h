// The lock of a file or directory that its process holds until it ends.
#pragma once

#include <sys/file.h>

#include <cerrno>

namespace lamina::io {

// Takes the lock without waiting. Returns 0; EWOULDBLOCK if another open file holds it; else the
// error of a file system without locks.
inline int try_lock(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace lamina::io
