// Reads lists of merges in tokenizer.json, in merges.txt and in GGUF files.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/json.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace lamina::text {

// Pairs of tokens, or both in one string with a space between, in the order of their ranks; the
// last of equal pairs counts, as in the reference. `form` is the vocabulary's. `prefix` begins
// tokens inside a word, and merged tokens have it once. Errors: another type in the list; a token
// that is not in the vocabulary.
MergeTable read_merges(const JsonValue& merges, const Vocabulary& vocabulary, Vocabulary::Form form,
                       std::string_view prefix);

// Throws the error of merge `place` of a list: `what` is the error, `note` is advice.
using RefuseMerge = std::function<void(std::size_t place, std::string what, std::string note)>;

// The pair that counts among equal ones.
enum class EqualMerges { first, last };

// Pairs of tokens of a byte-level vocabulary, in one string with a space between.
MergeTable read_merge_lines(std::span<const std::string_view> merges, const Vocabulary& vocabulary,
                            EqualMerges equal, const RefuseMerge& refuse);

}  // namespace lamina::text
