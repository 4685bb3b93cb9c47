// Compares the ids of two tokenizers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

struct TokenDifference {
  std::int64_t id = 0;
  std::string ours, theirs;  // results of Tokenizer::spelling()
};

// The first id whose text in `ours` differs from its text in `theirs`, or none. `ours` may have
// more ids.
std::optional<TokenDifference> first_difference(const Tokenizer& ours, const Tokenizer& theirs);

}  // namespace lamina::text
