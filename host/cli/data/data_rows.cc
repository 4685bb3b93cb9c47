#include "cli/data/data_rows.h"

#include <fmt/format.h>

#include <string_view>

#include "core/json_writer.h"
#include "core/printable.h"

namespace lamina::cli {
namespace {

std::string text_of(const text::Tokenizer& tokenizer, std::int32_t id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  return bytes.empty() ? fmt::format("<{}>", id) : std::string(bytes);
}

void add_numbers(JsonWriter& json, const char* key, std::span<const std::int32_t> values) {
  json.key(key).begin_array();
  for (std::int32_t value : values) json.value(value);
  json.end_array();
}

}  // namespace

DataRow row_of(const data::Batch& batch, std::size_t n) {
  const auto width = static_cast<std::size_t>(batch.tokens_per_row);
  const auto part = [&](const std::vector<std::int32_t>& values) {
    return std::span(values).subspan(n * width, width);
  };
  return {part(batch.tokens), part(batch.labels), part(batch.segment_ids), part(batch.positions)};
}

std::string_view answer_kind(data::DataForm form, std::int32_t segment) {
  // The two answers of a pair follow each other, and a row has whole pairs.
  if (form != data::DataForm::preference) return "";
  return segment % 2 == 1 ? "chosen" : "rejected";
}

std::string row_text(const text::Tokenizer& tokenizer, const DataRow& row, data::DataForm form,
                     bool color) {
  const std::string_view begin[] = {color ? "\033[2m" : "", color ? "\033[32m" : "{+"};
  const std::string_view end[] = {color ? "\033[0m" : "", color ? "\033[0m" : "+}"};
  std::string out;
  for (std::size_t i = 0; i < row.tokens.size() && row.segments[i] != 0;) {
    if (row.positions[i] == 0) {
      const std::string_view kind = answer_kind(form, row.segments[i]);
      out += fmt::format("{}segment {}{}{}:\n", i == 0 ? "" : "\n", row.segments[i],
                         kind.empty() ? "" : ", ", kind);
    }
    const bool in_loss = row.in_loss(i);
    const std::size_t first = i;
    std::string part;
    for (; i < row.tokens.size() && row.segments[i] == row.segments[first] &&
           row.in_loss(i) == in_loss;
         ++i)
      part += text_of(tokenizer, row.tokens[i]);
    out += fmt::format("{}{}{}", begin[in_loss], printable_lines(part), end[in_loss]);
  }
  return out;
}

std::string rows_json(const text::Tokenizer& tokenizer, const data::Batch& batch,
                      const data::Dataset& rows, data::DataForm form) {
  JsonWriter json;
  json.begin_object().key("num_rows").value(rows.num_rows()).key("num_labels");
  json.value(rows.num_labels()).key("rows").begin_array();
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.num_rows); ++n) {
    const DataRow row = row_of(batch, n);
    json.begin_object();
    add_numbers(json, "tokens", row.tokens);
    add_numbers(json, "labels", row.labels);
    add_numbers(json, "segments", row.segments);
    add_numbers(json, "positions", row.positions);
    if (form == data::DataForm::preference) {
      json.key("answers").begin_array();
      const std::int32_t last = row.segments.empty() ? 0 : std::ranges::max(row.segments);
      for (std::int32_t segment = 1; segment <= last; ++segment)
        json.value(answer_kind(form, segment));
      json.end_array();
    }
    json.key("pieces").begin_array();
    for (std::size_t i = 0; i < row.tokens.size(); ++i)
      json.value(row.segments[i] == 0 ? std::string() : text_of(tokenizer, row.tokens[i]));
    json.end_array().end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

}  // namespace lamina::cli
