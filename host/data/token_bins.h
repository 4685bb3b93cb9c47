// Files of tokens that other programs have made: llm.c, nanoGPT, Megatron.
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

// Consecutive whole documents of a file of tokens.
struct BinPart {
  std::span<const std::byte> bytes;
  int id_bytes = 2;                         // of each id, little-endian; 8 are read, but not kept
  std::uint64_t first_token = 0;            // in the file
  std::vector<std::uint64_t> document_end;  // into the part's tokens
  std::shared_ptr<const void> owner;        // of the bytes
};

// Reads one file, by what it begins with:
//   llm.c      256 numbers of 4 bytes (20240520, 1, count), then ids of 2 bytes;
//              or (20240801, 7, count), then ids of 4
//   Megatron   where an .idx of the same name lies beside it: its types, lengths and documents
//   nanoGPT    anything else: ids of 2 bytes
// Where there is no .idx a document ends after each `end_of_text`. Errors (class data): see
// io::MappedFile; a length, version or type that is not as it should be; an .idx that says other
// than the file has.
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
  std::uint64_t at_ = 0;      // token
  std::size_t document_ = 0;  // of an index
};

// True for the .idx of a .bin: what finds the files of a folder passes over it.
bool is_token_index(std::string_view path);

// The .idx that lies beside a file of tokens; "" where there is none.
std::string token_index_of(const std::string& path);

// The id at place `i` of the part.
std::int64_t id_in(const BinPart& part, std::size_t i);

}  // namespace lamina::data
