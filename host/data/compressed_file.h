// Compressed files, read from their beginning to their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lamina::data {

enum class Compression { none, gzip, zstd };

// By the end of the file's name: .gz, .zst.
Compression compression_of(std::string_view path);

// What a compressed file holds, piece by piece; of one thread. Errors (class data) of every call:
// the file cannot be read, is damaged or cut short, or grows more than a thousandfold.
class CompressedFile {
 public:
  virtual ~CompressedFile() = default;
  // The next bytes into `out`; fewer than fit only at the end. Returns how many.
  virtual std::size_t read(std::span<char> out) = 0;
  virtual std::uint64_t bytes_done() const = 0;  // of the file, packed
};

// REQUIRES: compression_of(path) is not none.
std::unique_ptr<CompressedFile> open_compressed(const std::string& path);

}  // namespace lamina::data
