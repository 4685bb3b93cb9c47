// Counts the bytes of text of each token, for bits per byte.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "text/tokenizer.h"

namespace lamina::evaluation {

// Counts the bytes of a text that its tokens stand for. Special tokens have none, and neither has
// the space that many tokenizers add in front of a text or of its part after a special token. Other
// changes by the tokenizer count: a token of unknown text has the bytes of its spelling.
class LabelBytes {
 public:
  // The tokenizer must outlive this object.
  explicit LabelBytes(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the bytes of a token that follows `before`.
  std::int64_t of(text::TokenId token, text::TokenId before);

 private:
  bool adds_space_after(text::TokenId special);

  const text::Tokenizer& tokenizer_;
  std::unordered_map<text::TokenId, bool> known_;  // by special token
};

}  // namespace lamina::evaluation
