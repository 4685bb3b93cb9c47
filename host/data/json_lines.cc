#include "data/json_lines.h"

#include <fmt/format.h>

#include "data/text_files.h"

namespace lamina::data {
namespace {

constexpr std::size_t kPartBytes = std::size_t{16} << 20;

}  // namespace

std::string_view record_text(std::string_view line, const std::string& file, std::uint64_t number) {
  if (number == 1) line = without_byte_order_mark(line);
  if (number == 1 && line.starts_with('['))
    throw UserError(ExitCode::data, {file,
                                     "is a JSON list; expected JSON objects, one per line",
                                     {"`jq -c '.[]' FILE` converts a list"}});
  return line;
}

JsonDocument parse_record(std::string_view text, const std::string& place) {
  return JsonDocument::parse(
      std::string(text), place,
      {.code = ExitCode::data, .max_bytes = kMaxRecordBytes, .max_depth = 64});
}

ErrorText too_long_record() {
  return {"",
          fmt::format("the line has more than {} bytes, the maximum for a record", kMaxRecordBytes),
          {}};
}

ErrorText at_record(const std::string& place, ErrorText text) {
  // A record is one line, so its own document reports line 1.
  if (!text.where.empty() && !text.where.starts_with(place))
    text.what = text.where + ": " + text.what;
  text.where = place;
  return text;
}

void read_records(const std::string& path,
                  const std::function<void(const JsonValue&, const std::string& place)>& read) {
  TextParts parts(path, Separator::line, kPartBytes, kMaxRecordBytes);
  while (const std::optional<TextPart> part = parts.next()) {
    if (part->is_too_long)
      throw UserError(ExitCode::data,
                      at_record(fmt::format("{}:{}", path, part->first_line), too_long_record()));
    read_lines(*part, [&](std::string_view line, std::uint64_t number) {
      const std::string place = fmt::format("{}:{}", path, number);
      const std::string_view text = record_text(line, path, number);
      try {
        read(parse_record(text, place).root(), place);
      } catch (const UserError& error) {
        throw UserError(error.code(), at_record(place, error.text()));
      }
    });
  }
}

}  // namespace lamina::data
