// Lists token ids with their spellings, as text and JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/json_writer.h"
#include "text/tokenizer.h"

namespace lamina::cli {

// Converts byte spans to code points, the unit of other tools.
std::vector<text::Span> in_code_points(std::string_view text, const std::vector<text::Span>& spans);

// Writes the member "ids", and reads its value back. Errors: a value that is not an id, in the
// document's class.
void write_ids(JsonWriter& json, const std::vector<text::TokenId>& ids);
std::vector<text::TokenId> read_ids(const JsonValue& list, std::int64_t vocab_size);

std::string listing_json(const text::Tokenizer& tokenizer, const text::Encoding& e);
// A line per token (id, span, spelling), then the number of tokens.
std::string listing_text(const text::Tokenizer& tokenizer, const text::Encoding& e);

}  // namespace lamina::cli
