// Files of JSON objects, one per line; errors name the file and the line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lamina::data {

// Longer lines are not read to their end.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{64} << 20;
// Returns the error of a record that is too long, without its place.
ErrorText too_long_record();

// Throws UserError (class data) if the file is a JSON list, by its first line.
void refuse_list(std::string_view line, const std::string& file, std::uint64_t number);

// Parses the object of a line; `place` is "FILE:LINE". Errors: class data.
JsonDocument parse_record(std::string_view text, const std::string& place);

// Adds `place` to an error about a record, which names only the record's document.
ErrorText at_record(const std::string& place, ErrorText text);

// Returns a member of a record. If it is missing, throws UserError (class data) that names the
// record's own keys: "the object has no 'body' (data.field); it has text, id". `said`: what chose
// the key, or "".
JsonValue record_member(const JsonValue& record, std::string_view key, std::string_view said = "",
                        std::vector<std::string> notes = {});

// Calls `read` for each record of a file, in order, with its place; blank lines are skipped.
// Errors (class data): the file cannot be read; a line is not JSON, with `form` as a note;
// UserErrors of `read`, with the place.
void read_records(const std::string& path,
                  const std::function<void(const JsonValue&, const std::string& place)>& read,
                  const std::string& form = "");

}  // namespace lamina::data
