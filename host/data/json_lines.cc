#include "data/json_lines.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/printable.h"
#include "core/suggest.h"
#include "data/text_files.h"

namespace lamina::data {
namespace {

constexpr std::size_t kPartBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxKeys = 12;  // of a record, named in an error

// "text, content"; "no keys" for an empty object.
std::string keys_text(const std::vector<std::string>& keys) {
  if (keys.empty()) return "no keys";
  const std::vector<std::string> shown(
      keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(std::min(keys.size(), kMaxKeys)));
  return fmt::format(
      "{}{}", fmt::join(shown, ", "),
      keys.size() > kMaxKeys ? fmt::format(" and {} more", keys.size() - kMaxKeys) : "");
}

JsonDocument parse_record_of(std::string_view text, const std::string& place,
                             const std::string& form) {
  try {
    return parse_record(text, place);
  } catch (const UserError& error) {
    ErrorText said = error.text();
    if (!form.empty()) said.notes.push_back(form);
    throw UserError(error.code(), std::move(said));
  }
}

}  // namespace

void refuse_list(std::string_view line, const std::string& file, std::uint64_t number) {
  if (number == 1 && line.starts_with('['))
    throw UserError(ExitCode::data, {file,
                                     "is a JSON list; expected JSON objects, one per line",
                                     {"`jq -c '.[]' FILE` converts a list"}});
}

JsonDocument parse_record(std::string_view text, const std::string& place) {
  return JsonDocument::parse(std::string(text), place,
                             {.code = ExitCode::data,
                              .max_bytes = kMaxRecordBytes,
                              .max_depth = 64,
                              .infinite_numbers = true,
                              .part = "line"});
}

ErrorText too_long_record() {
  return {"",
          fmt::format("the line has more than {} bytes, the maximum for a record", kMaxRecordBytes),
          {}};
}

ErrorText at_record(const std::string& place, ErrorText text) {
  if (!text.where.empty() && !text.where.starts_with(place))
    text.what = text.where + ": " + text.what;
  text.where = place;
  return text;
}

JsonValue record_member(const JsonValue& record, std::string_view key, std::string_view said,
                        std::vector<std::string> notes) {
  if (!record.is_object()) record.fail("must be an object, got " + record.describe(), notes);
  if (const JsonValue value = record.find(key)) return value;
  std::vector<std::string> keys;
  for (const auto& [name, value] : record.members()) keys.push_back(printable(name, 60));
  if (const std::string near = nearest_name(key, keys); !near.empty())
    notes.insert(notes.begin(), fmt::format("did you mean '{}', which is present?", near));
  throw UserError(ExitCode::data,
                  {record.where(),
                   fmt::format("the object has no '{}'{}{}; it has {}", printable(key, 60),
                               said.empty() ? "" : " ", said, keys_text(keys)),
                   std::move(notes)});
}

void read_records(const std::string& path,
                  const std::function<void(const JsonValue&, const std::string& place)>& read,
                  const std::string& form) {
  TextParts parts(path, Separator::line, kPartBytes, kMaxRecordBytes);
  while (const std::optional<TextPart> part = parts.next()) {
    if (part->is_too_long)
      throw UserError(ExitCode::data,
                      at_record(fmt::format("{}:{}", path, part->first_line), too_long_record()));
    read_lines(*part, [&](std::string_view line, std::uint64_t number) {
      const std::string place = fmt::format("{}:{}", path, number);
      refuse_list(line, path, number);
      try {
        read(parse_record_of(line, place, form).root(), place);
      } catch (const UserError& error) {
        throw UserError(error.code(), at_record(place, error.text()));
      }
    });
  }
}

}  // namespace lamina::data
