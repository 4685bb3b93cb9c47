// The list of merges in tokenizer.json.
#pragma once

#include <string_view>

#include "core/json.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace lamina::text {

// Pairs of tokens, or both in one string with a space between, in the order of their ranks; of
// equal pairs the last counts, as in the reference. `form` is the vocabulary's; `prefix` begins
// tokens inside a word, and what merges has it once. Errors: something else in the list; a token
// that is not in the vocabulary.
MergeTable read_merges(const JsonValue& merges, const Vocabulary& vocabulary, Vocabulary::Form form,
                       std::string_view prefix);

}  // namespace lamina::text
