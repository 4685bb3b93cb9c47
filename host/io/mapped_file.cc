#include "io/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/open_file.h"
#include "core/system_error.h"
#include "io/mapping_faults.h"

namespace lamina::io {
namespace {

// madvise requires whole pages: the ones that overlap `part`.
void advise(std::span<const std::byte> part, int advice) {
  static const auto kPageBytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (part.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first_page = begin / kPageBytes * kPageBytes;
  ::madvise(reinterpret_cast<void*>(first_page), begin + part.size() - first_page, advice);
}

}  // namespace

MappedFile::MappedFile(std::string path, ExitCode code) : path_(std::move(path)) {
  const InputFile file(path_, code);
  num_bytes_ = file.num_bytes();
  if (num_bytes_ == 0) return;
  void* data = ::mmap(nullptr, num_bytes_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (data == MAP_FAILED && errno == ENOMEM)
    throw DeviceError(ExitCode::memory,
                      {path_,
                       fmt::format("cannot be mapped ({} bytes): out of memory", num_bytes_),
                       {"raise the limit on address space (ulimit -v)"}});
  if (data == MAP_FAILED)
    throw UserError(
        code, {path_,
               fmt::format("cannot be mapped ({} bytes): {}", num_bytes_, system_error_text(errno)),
               {"check the file system"}});
  data_ = static_cast<const std::byte*>(data);
  list_mapping(bytes(), path_, code);
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
  if (!data_) return;
  unlist_mapping(bytes());
  ::munmap(const_cast<std::byte*>(data_), num_bytes_);
}

void MappedFile::sequential(std::span<const std::byte> part) { advise(part, MADV_SEQUENTIAL); }
void MappedFile::random(std::span<const std::byte> part) { advise(part, MADV_RANDOM); }
void MappedFile::large_pages(std::span<const std::byte> part) { advise(part, MADV_HUGEPAGE); }

void MappedFile::map_pages(std::span<const std::byte> part) {
  // A page fault maps the surrounding 64 KiB. Mapping the whole part with MADV_POPULATE_READ takes
  // a third longer.
  constexpr std::size_t kAround = std::size_t{1} << 16;
  for (std::size_t at = 0; at < part.size(); at += kAround)
    static_cast<void>(*static_cast<const volatile std::byte*>(&part[at]));
}

}  // namespace lamina::io
