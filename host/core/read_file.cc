#include "core/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/utf8.h"

namespace lamina {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail(ExitCode code, const std::string& path, std::string what,
                       std::string what_to_do) {
  throw UserError(code, {path, std::move(what), {std::move(what_to_do)}});
}

}  // namespace

std::string system_error_text(int error_number) {
  std::string text = std::generic_category().message(error_number);
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && !(text[1] >= 'A' && text[1] <= 'Z'))
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (at >= max_bytes) return out + "...";
    const std::size_t length = utf8_length(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (length == 0 || (length == 1 && (byte < 0x20 || byte == 0x7f))) {
      out += fmt::format("\\x{:02x}", byte);
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

std::string read_file(const std::string& path, ExitCode code, std::size_t max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    fail(code, path, fmt::format("cannot be read: {}", system_error_text(errno)),
         "check the path and its permissions");
  struct stat status {};
  if (::fstat(file.fd, &status) != 0)
    fail(code, path, fmt::format("cannot be read: {}", system_error_text(errno)),
         "check the file system");
  if (S_ISDIR(status.st_mode))
    fail(code, path, "is a directory; expected a file", "name a file inside it");
  const auto too_large = [&](std::size_t bytes) {
    fail(code, path,
         fmt::format("holds {} bytes or more; at most {} are accepted here", bytes, max_bytes),
         "is this the right file?");
  };
  const auto expected_bytes = static_cast<std::size_t>(status.st_size);
  if (expected_bytes > max_bytes) too_large(expected_bytes);

  // One byte more than expected, so that the read that finds the end needs no second allocation.
  std::string text(expected_bytes + 1, '\0');
  std::size_t got = 0;
  for (;;) {
    const ssize_t n = ::read(file.fd, text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      fail(code, path, fmt::format("cannot be read at byte {}: {}", got, system_error_text(errno)),
           "check the file system");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
    if (got > max_bytes) too_large(got);
    if (got == text.size()) text.resize(text.size() * 2);
  }
  text.resize(got);
  return text;
}

}  // namespace lamina
