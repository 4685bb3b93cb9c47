// From a rendered conversation to token ids.
#pragma once

#include <vector>

#include "jinja/template.h"
#include "text/tokenizer.h"

namespace lamina::chat {

// The template's own text may be control tokens: special ones, and added ones that it holds. What
// came from outside never is one, whatever it looks like: there each is read as a text of its own,
// and none begins in one kind of text and ends in the other. Ids are those of transformers'
// apply_chat_template(sanitize_control_tokens=True). The template writes what begins a text itself,
// so nothing is added. Errors (class data): a control token that the vocabulary makes of ordinary
// text, too.
std::vector<text::TokenId> encode(const text::Tokenizer& tokenizer,
                                  const jinja::Rendered& rendered);

}  // namespace lamina::chat
