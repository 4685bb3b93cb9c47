// Ids added around every text: the post_processor of tokenizer.json.
#pragma once

#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace lamina::text {

struct PostTemplate {
  std::vector<TokenId> before, after;
};

// Reads the value of the key "post_processor"; may be null. Errors (class checkpoint): a type that
// lamina lacks, ids outside the vocabulary.
PostTemplate read_post_processor(const JsonValue& json, std::int64_t num_ids);

}  // namespace lamina::text
