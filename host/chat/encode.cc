#include "chat/encode.h"

namespace lamina::chat {

std::vector<text::TokenId> encode(const text::Tokenizer& tokenizer,
                                  const jinja::Rendered& rendered) {
  std::vector<text::Span> literal;
  literal.reserve(rendered.given.size());
  for (const jinja::Span& span : rendered.given) literal.push_back({span.begin, span.end});
  return tokenizer.encode(rendered.text,
                          {.add_special = false, .parse_special = true, .literal = literal});
}

}  // namespace lamina::chat
