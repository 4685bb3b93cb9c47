// Too few file descriptors, as with a low `ulimit -n`.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace lamina::testing {

// Leaves `count` more descriptors to this process until it is destroyed.
class FewDescriptors {
 public:
  explicit FewDescriptors(int count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(lowest_free);
    const rlimit few{static_cast<rlim_t>(lowest_free + count), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace lamina::testing
