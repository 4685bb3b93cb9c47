// Text files as documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/text_parts.h"

namespace lamina::data {

struct TextFileCounts {
  std::uint64_t num_documents = 0;
  std::uint64_t num_empty_documents = 0;  // nothing but white space; left out
  // Records that have nothing to learn: conversations without an answer, pairs of equal answers;
  // left out.
  std::uint64_t num_unlearned_records = 0;
  std::uint64_t num_bytes = 0;  // of the whole file, unpacked

  TextFileCounts& operator+=(const TextFileCounts& other);
};

// The text of a whole file, without the mark that some editors begin UTF-8 with.
std::string_view without_byte_order_mark(std::string_view text);

// Calls `document` for each document of the file, in order and without its separator, nor the
// carriage return before that, nor a byte order mark. Errors
// (class data): the file cannot be read; it is not UTF-8 (the line and the byte are named).
TextFileCounts read_documents(const std::string& path, Separator separator,
                              const std::function<void(std::string_view)>& document);

// Likewise for a part of the file.
TextFileCounts read_documents(const std::string& path, const TextPart& part, Separator separator,
                              const std::function<void(std::string_view)>& document);

// Lines with their numbers in the file, without line feeds; those that are empty or hold only white
// space count as empty documents. Nothing is said of their encoding.
TextFileCounts read_lines(const TextPart& part,
                          const std::function<void(std::string_view, std::uint64_t)>& line);

}  // namespace lamina::data
