#include "cli/data/token_listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "core/utf8.h"

namespace lamina::cli {

using text::Span;
using text::TokenId;

std::vector<Span> in_code_points(std::string_view text, const std::vector<Span>& spans) {
  std::vector<std::size_t> before{0};  // code points before each byte
  before.reserve(text.size() + 1);
  for (char c : text) before.push_back(before.back() + (utf8_continues(c) ? 0 : 1));
  std::vector<Span> out;
  for (const Span& span : spans)
    out.push_back(
        {before[std::min(span.begin, text.size())], before[std::min(span.end, text.size())]});
  return out;
}

void write_ids(JsonWriter& json, const std::vector<TokenId>& ids) {
  json.key("ids").begin_array();
  for (TokenId id : ids) json.value(id);
  json.end_array();
}

std::vector<TokenId> read_ids(const JsonValue& list, std::int64_t vocab_size) {
  std::vector<TokenId> ids;
  for (JsonValue id : list.elements()) {
    const std::int64_t value = id.as_int64();
    if (value < 0) id.fail(fmt::format("is {}, which is not a token id; they count from 0", value));
    if (value >= vocab_size)
      id.fail(fmt::format("is {}, which is outside the vocabulary of {}; use 0 to {}", value,
                          vocab_size, vocab_size - 1));
    ids.push_back(static_cast<TokenId>(value));
  }
  return ids;
}

std::string listing_json(const text::Tokenizer& tokenizer, const text::Encoding& e) {
  JsonWriter json;
  json.begin_object().key("count").value(e.ids.size());
  write_ids(json, e.ids);
  json.key("pieces").begin_array();
  for (TokenId id : e.ids) json.value(tokenizer.spelling(id));
  json.end_array().key("offsets").begin_array();
  for (const Span& span : e.spans) json.begin_array().value(span.begin).value(span.end).end_array();
  return json.end_array().end_object().text() + "\n";
}

std::string listing_text(const text::Tokenizer& tokenizer, const text::Encoding& e) {
  std::string out;
  for (std::size_t i = 0; i < e.ids.size(); ++i)
    out += fmt::format("{:>8}  {:>6}..{:<6}  {}\n", e.ids[i], e.spans[i].begin, e.spans[i].end,
                       printable(tokenizer.spelling(e.ids[i])));
  return out + fmt::format("{} token{}\n", e.ids.size(), e.ids.size() == 1 ? "" : "s");
}

}  // namespace lamina::cli
