// Maps tokens that differ only in case, accents or spacing to one id, for Engram's n-grams.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

struct TokenCompression {
  std::vector<std::int32_t> ids;  // by token id
  std::int64_t count = 0;         // number of different ids: they are 0 to count - 1
  std::optional<std::int32_t> pad;
};

// Ids in order of first appearance of a token's key: its text (special tokens too) in NFKC, then
// NFD, without accents, in lower case, with each run of blanks replaced by one and none at its
// ends, except that a lone blank stays; the text itself if nothing is left; the vocabulary's own
// spelling if the token is not complete UTF-8. DeepSeek-AI, Engram, 2026, section 2.2; as in
// MaxText.
TokenCompression compress_tokens(const Tokenizer& tokenizer);

}  // namespace lamina::text
