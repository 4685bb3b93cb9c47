// Which tokens of a conversation are the model's own: those that training on chats learns.
#pragma once

#include <string>
#include <vector>

#include "jinja/template.h"
#include "text/tokenizer.h"

namespace lamina::chat {

struct MaskedTokens {
  std::vector<text::TokenId> ids;
  std::vector<bool> generated;  // one for each
};

// The tokens of the whole text, control tokens of users' texts included, as training data is read;
// generated are those of the template's {% generation %} blocks. As transformers'
// return_assistant_tokens_mask has it: a token on the border belongs to the block; where the last
// character of a block has no token, all that follow do; where the first one has none, neither this
// block nor those after it count.
MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const jinja::Rendered& rendered);
// Likewise of parts of a text that are told in bytes, where characters begin and end.
MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const std::string& text,
                              const std::vector<jinja::Span>& generated);

}  // namespace lamina::chat
