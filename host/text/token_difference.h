// Whether two tokenizers mean the same by their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

struct TokenDifference {
  std::int64_t id = 0;
  std::string ours, theirs;  // as Tokenizer::spelling() has them
};

// The first id to which `theirs` gives a text and `ours` another one, or none. `ours` may have more
// ids.
std::optional<TokenDifference> first_difference(const Tokenizer& ours, const Tokenizer& theirs);

}  // namespace lamina::text
