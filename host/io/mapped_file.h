// A file mapped read-only: its bytes are used in place in the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"

namespace lamina::io {

// All processes that map the same file share the memory. The mapping stays valid, with the old
// bytes, when the file is replaced by rename. If a file is truncated in place, the lost part can no
// longer be read: see mapping_faults.h. lamina never writes over an existing file.
class MappedFile {
 public:
  MappedFile() = default;
  // Errors: UserError of class `code` with the file and the reason.
  explicit MappedFile(std::string path, ExitCode code = ExitCode::checkpoint);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  // Borrowed; valid during the lifetime of this object. [any thread]
  std::span<const std::byte> bytes() const { return {data_, num_bytes_}; }

  // Hints to the system about a part of bytes(); they never fail.
  static void sequential(std::span<const std::byte> part);
  static void random(std::span<const std::byte> part);
  // Asks for large pages, which take less time to map.
  static void large_pages(std::span<const std::byte> part);

  // Asks the system to map the pages of a part before it is read, and to read pages that are not in
  // memory.
  static void map_pages(std::span<const std::byte> part);

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t num_bytes_ = 0;
};

}  // namespace lamina::io
