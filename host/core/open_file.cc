#include "core/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/printable.h"
#include "core/system_error.h"

namespace lamina {
namespace {

[[noreturn]] void refuse(const std::string& path, ExitCode code, mode_t mode) {
  std::string note = "give a regular file";
  if (S_ISDIR(mode)) note = "give a file inside it";
  if (S_ISFIFO(mode)) note = "write its output to a file first";
  throw UserError(code, {path, fmt::format("is {}; expected a file", file_kind(mode)), {note}});
}

}  // namespace

std::string_view file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

int open_regular_file(const std::string& path, int flags) {
  // Non-blocking: opening a FIFO would wait for its reader.
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  const int error_number = errno;
  struct stat status {};
  if (fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  if (fd >= 0) ::close(fd);
  if (fd < 0 && (::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)))
    throw DeviceError(
        ExitCode::checkpoint,
        {path,
         fmt::format("cannot be opened: {}", system_error_text(error_number)),
         {error_number == EMFILE ? kRaiseOpenFiles
                                 : "check the disk and the permissions of the directory"}});
  throw DeviceError(ExitCode::checkpoint,
                    {path,
                     fmt::format("must be a regular file, got {}", file_kind(status.st_mode)),
                     {"remove it, or choose another --out"}});
}

InputFile::InputFile(const std::string& path, ExitCode code) {
  // The system would end the path there and open another file.
  if (path.find('\0') != path.npos)
    user_error(code, printable(path), "is not a path; file names cannot contain a NUL byte");
  struct stat status {};
  const auto fail = [&](int error) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw UserError(code,
                    {path,
                     fmt::format("cannot be read: {}", system_error_text(error)),
                     {error == EMFILE ? kRaiseOpenFiles : "check the path and its permissions"}});
  };
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) {
    const int error = errno;
    // Sockets, and devices without a driver.
    if (error == ENXIO && ::stat(path.c_str(), &status) == 0) refuse(path, code, status.st_mode);
    if (error == ENOENT && path == "-")
      throw UserError(code, {path,
                             "stdin is not read here; expected a file",
                             {"write it to a file first, and give the name of the file"}});
    fail(error);
  }
  if (::fstat(descriptor_, &status) != 0) fail(errno);
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    refuse(path, code, status.st_mode);
  }
  num_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

}  // namespace lamina
