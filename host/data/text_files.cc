#include "data/text_files.h"

#include <algorithm>

#include "core/error.h"
#include "core/utf8.h"
#include "io/mapped_file.h"

namespace lamina::data {
namespace {

[[noreturn]] void fail(const std::string& where, std::string what, std::string what_to_do) {
  throw UserError(ExitCode::data, {where, std::move(what), {std::move(what_to_do)}});
}

}  // namespace

std::optional<Separator> parse_separator(std::string_view text) {
  if (text == "file") return Separator::file;
  if (text == "blank_line") return Separator::blank_line;
  if (text == "line") return Separator::line;
  return std::nullopt;
}

TextFileCounts read_documents(const std::string& path, Separator separator,
                              const std::function<void(std::string_view)>& document) {
  const io::MappedFile file(path, ExitCode::data);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  io::MappedFile::sequential(file.bytes());
  if (const std::size_t bad = find_invalid_utf8(text); bad != text.npos) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    fail(fmt::format("{}:{}", path, line),
         fmt::format("is not UTF-8: byte {} of the file is 0x{:02x}; text must be UTF-8", bad,
                     static_cast<unsigned char>(text[bad])),
         "convert the file, eg with `iconv -t utf-8`");
  }
  TextFileCounts counts;
  counts.num_bytes = text.size();
  const auto add = [&](std::string_view part) {
    if (part.find_first_not_of(" \t\r\n") == part.npos) {
      ++counts.num_empty_documents;
    } else {
      ++counts.num_documents;
      document(part);
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
      end = line_end;
    } else if (end > begin) {
      add(text.substr(begin, end - begin));
      begin = end;
    }
    at = line_end + 1;
  }
  if (end > begin) add(text.substr(begin, end - begin));
  return counts;
}

}  // namespace lamina::data
