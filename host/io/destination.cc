#include "io/destination.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/open_file.h"
#include "core/system_error.h"
#include "io/directories.h"

namespace lamina::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // the limit of the kernel

int standard_output = STDOUT_FILENO;

[[noreturn]] void refuse(const std::string& path, std::string what, std::string note) {
  throw UserError(ExitCode::usage, {path, std::move(what), {std::move(note)}});
}

std::optional<int> number_of(const std::string& text) {
  int out = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || stop != end || out < 0) return std::nullopt;
  return out;
}

// Returns the descriptor of this process to which `path` refers, eg: /dev/stdout. Its file must not
// be opened a second time: it may have no name, and output continues at the position of the
// descriptor.
std::optional<int> own_descriptor(fs::path path) {
  const fs::path descriptors = fmt::format("/proc/{}/fd", ::getpid());
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    const fs::path folder = fs::canonical(parent_directory(path.string()), error);
    if (error) return std::nullopt;
    if (folder == descriptors) {
      const std::optional<int> number = number_of(path.filename().string());
      return number == STDOUT_FILENO ? standard_output : number;
    }
    const fs::path target = fs::read_symlink(path, error);
    if (error) return std::nullopt;
    path = folder / target;
  }
  return std::nullopt;
}

}  // namespace

void move_standard_output(int descriptor) noexcept { standard_output = descriptor; }

bool is_standard_output(const Destination& destination) noexcept {
  return destination.descriptor >= 0 && destination.descriptor == standard_output;
}

Destination destination_of(const std::string& path) {
  if (path.empty()) refuse("\"\"", "must not be empty", "give the name of the file to write");
  if (path == "-")
    refuse(path, "is not accepted as a file name",
           "write to stdout with /dev/stdout, or to a file of that name with ./-");
  struct stat status {};
  if (const std::optional<int> descriptor = own_descriptor(path)) {
    const int flags = ::fcntl(*descriptor, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
      refuse(path, "is not open for writing", "redirect it, or give a file name");
    return {path, true, *descriptor};
  }
  if (::stat(path.c_str(), &status) != 0) {
    const int error = errno;
    if (dangling_link_in(path) == path)
      refuse(path, fmt::format("is a dangling link: {}", system_error_text(error)),
             "remove the link, or give the name of its target");
    if (::lstat(path.c_str(), &status) == 0)  // its target cannot be looked up
      throw UserError(ExitCode::checkpoint,
                      {path,
                       fmt::format("cannot be written: {}", system_error_text(error)),
                       {"check the disk and the permissions of the link's target"}});
    return {path};  // a new file; opening it reports errors
  }
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) return {path, true};
  if (!S_ISREG(status.st_mode))
    refuse(path,
           fmt::format("is {}; expected a regular file, a FIFO or a character device",
                       S_ISBLK(status.st_mode) ? "a block device" : file_kind(status.st_mode)),
           S_ISDIR(status.st_mode) ? "give a file inside it" : "choose another name");
  if (::access(path.c_str(), W_OK) != 0) {
    const int error = errno;
    throw UserError(ExitCode::checkpoint,
                    {path,
                     fmt::format("cannot be written: {}", system_error_text(error)),
                     {error == EROFS ? "choose a name on another file system"
                                     : "change its permissions, or choose another name"}});
  }
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return {error ? path : real.string()};
}

int open_in_place(const Destination& destination) {
  const int fd = destination.descriptor >= 0
                     ? ::fcntl(destination.descriptor, F_DUPFD_CLOEXEC, 0)
                     : ::open(destination.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) fail_at(destination.path, "cannot be opened", errno);
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  if (destination.descriptor >= 0 ||
      (known && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))))
    return fd;
  ::close(fd);  // the name has been given to another file
  fail_at(destination.path, "cannot be opened", EINVAL);
}

}  // namespace lamina::io
