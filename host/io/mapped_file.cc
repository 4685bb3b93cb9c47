#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/read_file.h"

namespace lamina::io {
namespace {

// madvise wants whole pages: the ones that `part` touches.
void advise(std::span<const std::byte> part, int advice) {
  static const auto kPageBytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (part.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first_page = begin / kPageBytes * kPageBytes;
  ::madvise(reinterpret_cast<void*>(first_page), begin + part.size() - first_page, advice);
}

}  // namespace

MappedFile::MappedFile(std::string path, ExitCode code) : path_(std::move(path)) {
  const auto fail = [&](std::string what, std::string what_to_do) {
    throw UserError(code, {path_, std::move(what), {std::move(what_to_do)}});
  };
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    fail(fmt::format("cannot be opened: {}", system_error_text(errno)),
         "check the path and its permissions");
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  const int stat_error = errno;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(fd);
    fail(known ? "is not a regular file" : "cannot be read: " + system_error_text(stat_error),
         "name the file itself");
  }
  num_bytes_ = static_cast<std::size_t>(status.st_size);
  if (num_bytes_ > 0) {
    void* data = ::mmap(nullptr, num_bytes_, PROT_READ, MAP_SHARED, fd, 0);
    const int map_error = errno;
    if (data == MAP_FAILED) {
      ::close(fd);
      fail(fmt::format("cannot be mapped ({} bytes): {}", num_bytes_, system_error_text(map_error)),
           "check the limit on address space (ulimit -v) and the file system");
    }
    data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      num_bytes_(std::exchange(other.num_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), num_bytes_);
}

void MappedFile::will_need(std::span<const std::byte> part) { advise(part, MADV_WILLNEED); }
void MappedFile::sequential(std::span<const std::byte> part) { advise(part, MADV_SEQUENTIAL); }
void MappedFile::random(std::span<const std::byte> part) { advise(part, MADV_RANDOM); }
void MappedFile::done_with(std::span<const std::byte> part) { advise(part, MADV_DONTNEED); }

}  // namespace lamina::io
