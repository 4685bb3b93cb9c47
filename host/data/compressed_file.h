// Compressed files, read sequentially.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lamina::data {

enum class Compression { none, gzip, zstd };

// Determined by the extension of the file name: .gz, .zst.
Compression compression_of(std::string_view path);

// Refuses a file (class data) that begins as a compressed one whose form differs from the ending of
// `path`, eg: xz, or gzip without .gz.
void check_ending(const std::string& path, std::string_view bytes);

// Refuses `bytes` from `place` (class data) that begin as a compressed file, for readers that
// unpack none.
void refuse_compressed(const std::string& place, std::string_view bytes);

// The uncompressed contents, piece by piece, in one thread. Errors (class data) of every call: the
// file cannot be read, has another form than its ending, is damaged or truncated, or expands more
// than a thousandfold.
class CompressedFile {
 public:
  virtual ~CompressedFile() = default;
  // Reads the next bytes into `out` and returns their number; fewer than out.size() only at the
  // end.
  virtual std::size_t read(std::span<char> out) = 0;
  virtual std::uint64_t bytes_done() const = 0;  // compressed bytes of the file
};

// REQUIRES: compression_of(path) is not none.
std::unique_ptr<CompressedFile> open_compressed(const std::string& path);

}  // namespace lamina::data
