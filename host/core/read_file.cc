#include "core/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "core/huge_pages.h"
#include "core/open_file.h"
#include "core/system_error.h"

namespace lamina {
namespace {

// Reads up to `num_bytes` to `out`, and returns how many; 0 at the end. `at`: the bytes before.
std::size_t read_some(int descriptor, char* out, std::size_t num_bytes, std::size_t at,
                      const std::string& path, ExitCode code) {
  for (;;) {
    const ssize_t n = ::read(descriptor, out, num_bytes);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN) {  // a non-blocking pipe
      pollfd waiting{descriptor, POLLIN, 0};
      ::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      throw UserError(code,
                      {path,
                       fmt::format("cannot be read at byte {}: {}", at, system_error_text(errno)),
                       {"check the file system"}});
    }
  }
}

// Reads everything from `descriptor`. `expected_bytes` is its size, if known.
std::string read_all(int descriptor, const std::string& path, ExitCode code, std::size_t max_bytes,
                     std::size_t expected_bytes) {
  const auto too_large = [&](std::size_t bytes) {
    throw UserError(code, {path,
                           fmt::format("has {} bytes or more; the maximum is {}", bytes, max_bytes),
                           {"check that this is the right file"}});
  };
  if (expected_bytes > max_bytes) too_large(expected_bytes);
  // One byte more than expected, so that the read that finds the end needs no second allocation.
  std::string text;
  text.reserve(expected_bytes + 1);
  prefer_huge_pages(text.data(), text.capacity());
  text.resize(expected_bytes + 1);
  std::size_t got = 0;
  for (;;) {
    const std::size_t n =
        read_some(descriptor, text.data() + got, text.size() - got, got, path, code);
    if (n == 0) break;
    got += n;
    if (got > max_bytes) too_large(got);
    if (got == text.size()) text.resize(std::min(text.size() * 2, max_bytes + 1));
  }
  text.resize(got);
  return text;
}

}  // namespace

std::string read_file(const std::string& path, ExitCode code, std::size_t max_bytes) {
  const InputFile file(path, code);
  return read_all(file.descriptor(), path, code, max_bytes, file.num_bytes());
}

std::string read_beginning(const std::string& path, ExitCode code, std::size_t num_bytes) {
  const InputFile file(path, code);
  std::string out(num_bytes, '\0');
  std::size_t got = 0;
  while (got < num_bytes) {
    const std::size_t n =
        read_some(file.descriptor(), out.data() + got, num_bytes - got, got, path, code);
    if (n == 0) break;
    got += n;
  }
  out.resize(got);
  return out;
}

void check_stdin(ExitCode code) {
  const int error = errno;
  if (std::ferror(stdin))
    throw UserError(code, {"stdin",
                           fmt::format("cannot be read: {}", system_error_text(error)),
                           {"check the file or device that it is connected to"}});
  struct stat status {};
  const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY || ::fstat(STDIN_FILENO, &status) != 0)
    user_error(code, "stdin", "is closed; expected text to read");
  if (S_ISDIR(status.st_mode)) user_error(code, "stdin", "is a directory; expected text to read");
}

std::string read_stdin(ExitCode code, std::size_t max_bytes) {
  check_stdin(code);
  return read_all(STDIN_FILENO, "stdin", code, max_bytes, 0);
}

}  // namespace lamina
