// Code shared by the records of all tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/json_lines.h"

namespace lamina::evaluation {

// The location of a record.
struct RecordPlace {
  std::size_t file = 0;  // index of the file
  std::string text;      // "questions.jsonl:7"
};

[[noreturn]] void no_records(const std::vector<std::string>& files);

// A text, or a list of texts with at least one. Errors: class data.
std::vector<std::string> texts_of(const JsonValue& value);

// The records of every file as `read(record, place)` returns them, in order. `form` says what a
// record is, as a note. Errors (class data): as data::read_records(); files without a record.
template <typename Record, typename Read>
std::vector<Record> read_all(const std::vector<std::string>& files, const std::string& form,
                             const Read& read) {
  std::vector<Record> out;
  for (std::size_t file = 0; file < files.size(); ++file)
    data::read_records(
        files[file],
        [&](const JsonValue& record, const std::string& place) {
          out.push_back(read(record, RecordPlace{file, place}));
        },
        form);
  if (out.empty()) no_records(files);
  return out;
}

// A share, count / total, and its standard error, sqrt(p (1 - p) / (n - 1)), as in
// lm-evaluation-harness.
struct Share {
  std::uint64_t count = 0, total = 0;

  void add(bool hit) {
    count += hit ? 1 : 0;
    ++total;
  }
  double value() const;
  std::optional<double> standard_error() const;  // null for a single value
};

}  // namespace lamina::evaluation
