// Reads text files as documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/text_parts.h"

namespace lamina::data {

struct TextFileCounts {
  std::uint64_t num_documents = 0;
  std::uint64_t num_empty_documents = 0;  // only white space; skipped
  // Records without labels (conversations without an answer, pairs of equal answers); skipped.
  std::uint64_t num_unlearned_records = 0;
  std::uint64_t num_skipped_messages = 0;  // after the last answer of other conversations
  std::uint64_t num_bytes = 0;             // of the whole file, uncompressed

  TextFileCounts& operator+=(const TextFileCounts& other);
};

// Removes the byte order mark that some editors write at the start of UTF-8 files.
std::string_view without_byte_order_mark(std::string_view text);

// Calls `document` for each document of the file, in order, without its separator, a carriage
// return before that, or a byte order mark. Errors (class data): the file cannot be read; it is not
// UTF-8 (the error gives the line and the byte).
TextFileCounts read_documents(const std::string& path, Separator separator,
                              const std::function<void(std::string_view)>& document);

// Reads the documents of a part of the file.
TextFileCounts read_documents(const std::string& path, const TextPart& part, Separator separator,
                              const std::function<void(std::string_view)>& document);

// Reads lines with their numbers in the file, without line feeds or a byte order mark; blank lines
// count as empty documents. The encoding is not checked.
TextFileCounts read_lines(const TextPart& part,
                          const std::function<void(std::string_view, std::uint64_t)>& line);

}  // namespace lamina::data
