// From a rendered conversation to token ids.
#pragma once

#include <vector>

#include "jinja/template.h"
#include "text/tokenizer.h"

namespace lamina::chat {

// The template's own text may be special tokens; what came from outside never is, whatever it
// looks like. The template writes what begins a text itself, so nothing is added.
std::vector<text::TokenId> encode(const text::Tokenizer& tokenizer,
                                  const jinja::Rendered& rendered);

}  // namespace lamina::chat
