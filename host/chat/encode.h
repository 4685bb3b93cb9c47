// Converts a rendered conversation to token ids.
#pragma once

#include <vector>

#include "jinja/template.h"
#include "text/tokenizer.h"

namespace lamina::chat {

// The template's own text may contain control tokens: special ones, and added ones that occur in
// it. Text from outside never does, whatever it looks like: each such text is encoded separately,
// and no control token crosses the border between the two kinds. Ids are the same as from
// transformers' apply_chat_template(sanitize_control_tokens=True). Nothing is added at the
// beginning, because the template writes it. Errors (class data): a control token that the
// vocabulary also produces from ordinary text.
std::vector<text::TokenId> encode(const text::Tokenizer& tokenizer,
                                  const jinja::Rendered& rendered);

}  // namespace lamina::chat
