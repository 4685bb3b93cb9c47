// Token ids with what they stand for, as text and JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/json_writer.h"
#include "text/tokenizer.h"

namespace lamina::cli {

// Spans in code points, which is what other tools count.
std::vector<text::Span> in_code_points(std::string_view text, const std::vector<text::Span>& spans);

// The member "ids", and its value read back. Errors: those of the document for what is no id.
void write_ids(JsonWriter& json, const std::vector<text::TokenId>& ids);
std::vector<text::TokenId> read_ids(const JsonValue& list);

std::string listing_json(const text::Tokenizer& tokenizer, const text::Encoding& e);
// A line for each token: id, place, spelling; and how many there are.
std::string listing_text(const text::Tokenizer& tokenizer, const text::Encoding& e);

}  // namespace lamina::cli
