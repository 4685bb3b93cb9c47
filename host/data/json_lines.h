// Files of JSON objects, one per line; errors name the file and the line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/json.h"

namespace lamina::data {

// A longer line is not read to its end.
inline constexpr std::size_t kMaxRecordBytes = std::size_t{64} << 20;
// Describes the error of a record, without its place.
ErrorText too_long_record();

// A line without the byte order mark that a file may begin with. Throws UserError (class data)
// where the file is one list of JSON.
std::string_view record_text(std::string_view line, const std::string& file, std::uint64_t number);

// The object of a line; `place` is "FILE:LINE". Errors: class data.
JsonDocument parse_record(std::string_view text, const std::string& place);

// An error about the record at `place`, which knows no more than that it is a document's.
ErrorText at_record(const std::string& place, ErrorText text);

// Calls `read` for each record of a file, in order, with its place; lines that hold only white
// space are left out. Errors (class data): the file cannot be read; a line is no JSON; UserErrors
// of `read` get the place.
void read_records(const std::string& path,
                  const std::function<void(const JsonValue&, const std::string& place)>& read);

}  // namespace lamina::data
