#include "data/text_files.h"

#include <algorithm>

#include "core/error.h"
#include "core/utf8.h"

namespace lamina::data {
namespace {

// Bytes read at a time for callers that do not use parts.
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

void check_utf8(const std::string& path, const TextPart& part) {
  const std::size_t bad = find_invalid_utf8(part.text);
  if (bad == part.text.npos) return;
  const auto line =
      part.first_line +
      static_cast<std::uint64_t>(std::count(
          part.text.begin(), part.text.begin() + static_cast<std::ptrdiff_t>(bad), '\n'));
  throw UserError(ExitCode::data,
                  {fmt::format("{}:{}", path, line),
                   fmt::format("is not UTF-8: byte {} of the file is 0x{:02x}; text must be UTF-8",
                               part.first_byte + bad, static_cast<unsigned char>(part.text[bad])),
                   {"convert the file, eg with `iconv -t utf-8`"}});
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

namespace {

bool is_empty(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

}  // namespace

TextFileCounts& TextFileCounts::operator+=(const TextFileCounts& other) {
  num_documents += other.num_documents;
  num_empty_documents += other.num_empty_documents;
  num_unlearned_records += other.num_unlearned_records;
  num_skipped_messages += other.num_skipped_messages;
  num_bytes += other.num_bytes;
  return *this;
}

TextFileCounts read_documents(const std::string& path, Separator separator,
                              const std::function<void(std::string_view)>& document) {
  TextFileCounts counts;
  TextParts parts(path, separator, kPartBytes);
  while (const auto part = parts.next()) counts += read_documents(path, *part, separator, document);
  return counts;
}

TextFileCounts read_documents(const std::string& path, const TextPart& part, Separator separator,
                              const std::function<void(std::string_view)>& document) {
  check_utf8(path, part);
  std::string_view text = part.text;
  TextFileCounts counts;
  counts.num_bytes = text.size();
  if (part.first_byte == 0) text = without_byte_order_mark(text);
  const auto add = [&](std::string_view found) {
    if (is_empty(found)) {
      ++counts.num_empty_documents;
    } else {
      ++counts.num_documents;
      document(found);
    }
  };
  if (separator == Separator::file) {
    add(text);
    return counts;
  }
  // A document grows line by line until its separator.
  std::size_t begin = 0, end = 0;  // of the document so far
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_feed = text.find('\n', at);
    const std::size_t line_end = std::min(line_feed, text.size());
    const std::string_view line = text.substr(at, line_end - at);
    const bool blank = line.find_first_not_of(" \t\r") == line.npos;
    if (separator == Separator::line) {
      add(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    } else if (!blank) {
      if (end == begin) begin = at;
      end = line_end - (line.ends_with('\r') ? 1 : 0);
    } else if (end > begin) {
      add(text.substr(begin, end - begin));
      begin = end;
    }
    at = line_end + 1;
  }
  if (end > begin) add(text.substr(begin, end - begin));
  return counts;
}

TextFileCounts read_lines(const TextPart& part,
                          const std::function<void(std::string_view, std::uint64_t)>& line) {
  TextFileCounts counts;
  counts.num_bytes = part.text.size();
  const std::string_view text =
      part.first_byte == 0 ? without_byte_order_mark(part.text) : part.text;
  std::uint64_t number = part.first_line;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view found = text.substr(at, end - at);
    at = end + 1;
    if (is_empty(found))
      ++counts.num_empty_documents;
    else
      line(found, number);
  }
  return counts;
}

}  // namespace lamina::data
