// Reads token files of other programs: llm.c, nanoGPT, Megatron.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::data {

// Consecutive whole documents of a token file.
struct BinPart {
  std::span<const std::byte> bytes;
  int id_bytes = 2;                         // per id, little-endian; 8 is accepted in files only
  std::uint64_t first_token = 0;            // in the file
  std::vector<std::uint64_t> document_end;  // offsets in the part's tokens
  std::shared_ptr<const void> owner;        // of the bytes
};

// Reads one file, in the format given by its first bytes:
//   llm.c      256 numbers of 4 bytes (20240520, 1, count), then ids of 2 bytes;
//              or (20240801, 7, count), then ids of 4
//   Megatron   with an .idx of the same name beside it, which has type, lengths and documents
//   nanoGPT    anything else: ids of 2 bytes
// Without an .idx a document ends after each `end_of_text`. Errors (class data): see
// io::MappedFile; a wrong length, version or type; an .idx that does not match the file; an index
// with another extension.
class TokenBins {
 public:
  TokenBins(std::string path, std::optional<text::TokenId> end_of_text, std::size_t part_bytes);
  ~TokenBins();

  std::optional<BinPart> next();
  std::uint64_t bytes_done() const;

 private:
  struct Layout;
  static Layout layout_of(const std::string& path);
  std::uint64_t end_of_part() const;

  std::string path_;
  std::optional<text::TokenId> end_of_text_;
  std::size_t part_bytes_;
  std::unique_ptr<const Layout> layout_;
  std::uint64_t at_ = 0;      // index of the next token
  std::size_t document_ = 0;  // index of the next document
};

// Returns whether the file is an .idx that is not read as tokens: a .bin is beside it, or it begins
// as a Megatron index.
bool is_token_index(std::string_view path);

// Returns the .idx beside a token file; "" if there is none.
std::string token_index_of(const std::string& path);

// Returns the id at position `i` of the part.
std::int64_t id_in(const BinPart& part, std::size_t i);

}  // namespace lamina::data
