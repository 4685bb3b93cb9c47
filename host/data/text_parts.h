// A file of text cut into parts that end where documents do: what one thread tokenizes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/compressed_file.h"

namespace lamina::data {

// What ends a document.
enum class Separator {
  file,        // the end of the file only
  blank_line,  // one or more lines that are empty or hold only spaces and tabs
  line,        // every line feed
};

std::optional<Separator> parse_separator(std::string_view text);  // the names above

struct TextPart {
  std::string_view text;
  std::uint64_t first_byte = 0;  // of the text, unpacked where the file is compressed
  std::uint64_t first_line = 1;
  std::shared_ptr<const void> owner;  // of the text
  bool is_too_long = false;           // a line of more than max_line_bytes; the text is empty
};

// The parts of one file, in order; together they are all of it. Files called .gz and .zst are
// unpacked. Errors (class data): the file cannot be read; see CompressedFile.
class TextParts {
 public:
  // Parts have about `part_bytes`, more where a document is longer. With `max_line_bytes`, for
  // Separator::line, a longer line is passed over without being held, and is a part that says so.
  // REQUIRES: max_line_bytes is 0 (none) or at least part_bytes.
  TextParts(std::string path, Separator separator, std::size_t part_bytes,
            std::size_t max_line_bytes = 0);
  TextParts(const TextParts&) = delete;
  TextParts& operator=(const TextParts&) = delete;
  ~TextParts();

  std::optional<TextPart> next();
  // Bytes of the file, as it is on disk, that are behind it.
  std::uint64_t bytes_done() const;

  class Source;  // of the bytes

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
