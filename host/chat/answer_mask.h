// Finds the tokens of a conversation that the model writes: training on chats learns these.
#pragma once

#include <string>
#include <vector>

#include "jinja/template.h"
#include "text/tokenizer.h"

namespace lamina::chat {

struct MaskedTokens {
  std::vector<text::TokenId> ids;
  std::vector<bool> generated;  // one per token
};

// The tokens of the whole text, including control tokens in users' texts, as training data is read.
// A token is generated if a byte of it is in one of the template's {% generation %} blocks: all
// tokens of a character are, and so is a token on the border, as in transformers'
// return_assistant_tokens_mask.
MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const jinja::Rendered& rendered);
// Likewise for parts of a text given in bytes that are boundaries of characters.
MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const std::string& text,
                              const std::vector<jinja::RenderedSpan>& generated);

}  // namespace lamina::chat
