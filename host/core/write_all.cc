#include "core/write_all.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace lamina {

int write_all(int descriptor, std::string_view text) noexcept {
  const int before = errno;
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return errno;
    pollfd full{descriptor, POLLOUT, 0};
    if (::poll(&full, 1, -1) < 0 && errno != EINTR && errno != EAGAIN) return errno;
  }
  errno = before;
  return 0;
}

}  // namespace lamina
