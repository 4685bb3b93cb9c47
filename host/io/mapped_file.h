// A file mapped read-only: its bytes are used in place, in the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"

namespace lamina::io {

// The mapping is shared with every process that maps the same file; it stays valid, with the old
// bytes, when the file is replaced by rename. Of a file that is cut in place the lost part can no
// longer be read: see mapping_faults.h. lamina itself never writes over an existing file.
class MappedFile {
 public:
  MappedFile() = default;
  // Fails with a UserError of class `code` that names the file and the reason.
  explicit MappedFile(std::string path, ExitCode code = ExitCode::checkpoint);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  // Borrowed; valid as long as this object. [any thread]
  std::span<const std::byte> bytes() const { return {data_, num_bytes_}; }

  // Hints to the system about a part of bytes(); never fail.
  static void sequential(std::span<const std::byte> part);
  static void random(std::span<const std::byte> part);
  // What is read from the disk shall lie in large pages, which take less time to map.
  static void large_pages(std::span<const std::byte> part);

  // Has the system map the pages of a part that is about to be read, and read those that are not
  // in memory.
  static void map_pages(std::span<const std::byte> part);

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t num_bytes_ = 0;
};

}  // namespace lamina::io
