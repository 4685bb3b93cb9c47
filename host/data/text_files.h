// Text files as documents.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lamina::data {

// What ends a document.
enum class Separator {
  file,        // the end of the file only
  blank_line,  // one or more lines that are empty or hold only spaces and tabs
  line,        // every line feed
};

std::optional<Separator> parse_separator(std::string_view text);  // the names above

struct TextFileCounts {
  std::uint64_t num_documents = 0;
  std::uint64_t num_empty_documents = 0;  // nothing but white space; left out
  std::uint64_t num_bytes = 0;            // of the whole file
};

// Calls `document` for each document of the file, in order and without its separator. Errors
// (class data): the file cannot be read; it is not UTF-8 (the line and the byte are named).
TextFileCounts read_documents(const std::string& path, Separator separator,
                              const std::function<void(std::string_view)>& document);

}  // namespace lamina::data
