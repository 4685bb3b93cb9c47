// Text files cut into parts that end at document boundaries: the unit of work of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/compressed_file.h"

namespace lamina::data {

// The end of a document.
enum class Separator {
  file,        // the end of the file only
  blank_line,  // one or more lines with only spaces and tabs
  line,        // every line feed
};

std::optional<Separator> parse_separator(std::string_view text);  // the names above

struct TextPart {
  std::string_view text;
  std::uint64_t first_byte = 0;  // offset in the uncompressed text
  std::uint64_t first_line = 1;
  std::shared_ptr<const void> owner;  // of the text
  bool is_too_long = false;           // a line of more than max_line_bytes; the text is empty
};

// The parts of one file, in order, which together cover it. Files named .gz and .zst are
// uncompressed. Errors (class data): the file cannot be read; see CompressedFile.
class TextParts {
 public:
  // Parts have about `part_bytes`, more if a document is longer. With `max_line_bytes`, for
  // Separator::line, a longer line is skipped without keeping it in memory and returned as a part
  // with is_too_long. REQUIRES: max_line_bytes is 0 (no limit) or at least part_bytes.
  TextParts(std::string path, Separator separator, std::size_t part_bytes,
            std::size_t max_line_bytes = 0);
  TextParts(const TextParts&) = delete;
  TextParts& operator=(const TextParts&) = delete;
  ~TextParts();

  std::optional<TextPart> next();
  // Returns the number of bytes on disk that have been read.
  std::uint64_t bytes_done() const;

  class Source;  // provides the bytes

 private:
  std::size_t size_of_next() const;
  void skip_line();

  std::unique_ptr<Source> source_;
  std::string path_;
  Separator separator_;
  std::size_t part_bytes_, max_line_bytes_;
  bool in_long_line_ = false;
  std::uint64_t first_byte_ = 0, first_line_ = 1;
  bool is_first_ = true;
};

}  // namespace lamina::data
