#include "chat/answer_mask.h"

#include <algorithm>

#include "core/utf8.h"

namespace lamina::chat {
namespace {

// The first byte of each character, and the end.
std::vector<std::size_t> character_starts(const std::string& text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!utf8_continues(text[i])) out.push_back(i);
  out.push_back(text.size());
  return out;
}

// Most vocabularies reproduce a text byte by byte: then the tokens' lengths give their spans, in
// half the time that the tokenizer needs to track each token.
text::Encoding encode(const text::Tokenizer& tokenizer, const std::string& text) {
  const text::EncodeOptions options = {.add_special = false, .parse_special = true};
  text::Encoding out{tokenizer.encode(text, options), {}};
  out.spans.reserve(out.ids.size());
  std::size_t at = 0;
  for (text::TokenId id : out.ids) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (bytes.empty() || text.compare(at, bytes.size(), bytes) != 0)
      return tokenizer.encode_with_spans(text, options);
    out.spans.push_back({at, at + bytes.size()});
    at += bytes.size();
  }
  return at == text.size() ? out : tokenizer.encode_with_spans(text, options);
}

}  // namespace

MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const std::string& text,
                              const std::vector<jinja::RenderedSpan>& generated) {
  const text::Encoding encoding = encode(tokenizer, text);
  const std::vector<text::Span>& spans = encoding.spans;  // in the order of the text
  MaskedTokens out{encoding.ids, std::vector<bool>(spans.size())};
  for (const jinja::RenderedSpan& block : generated) {
    if (block.begin == block.end) continue;
    const auto first =
        std::partition_point(spans.begin(), spans.end(),
                             [&](const text::Span& token) { return token.end <= block.begin; });
    for (auto token = first; token != spans.end() && token->begin < block.end; ++token)
      out.generated[static_cast<std::size_t>(token - spans.begin())] = true;
  }
  return out;
}

MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const jinja::Rendered& rendered) {
  std::vector<jinja::RenderedSpan> in_bytes;
  if (!rendered.generated.empty()) {
    const std::vector<std::size_t> starts = character_starts(rendered.text);
    for (const jinja::RenderedSpan& block : rendered.generated)
      in_bytes.push_back({starts[block.begin], starts[block.end]});
  }
  return encode_with_mask(tokenizer, rendered.text, in_bytes);
}

}  // namespace lamina::chat
