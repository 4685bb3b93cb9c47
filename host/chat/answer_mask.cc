#include "chat/answer_mask.h"

#include <algorithm>
#include <optional>

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

// The first token that contains the byte; tokens are in the order of the text.
std::optional<std::size_t> token_of(const std::vector<text::Span>& spans, std::size_t byte) {
  const auto found = std::partition_point(
      spans.begin(), spans.end(), [byte](const text::Span& span) { return span.end <= byte; });
  if (found == spans.end() || found->begin > byte) return {};
  return static_cast<std::size_t>(found - spans.begin());
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
  text::Encoding encoding = encode(tokenizer, text);
  MaskedTokens out{std::move(encoding.ids), std::vector<bool>(encoding.spans.size())};
  for (const jinja::RenderedSpan& block : generated) {
    if (block.begin == block.end) continue;
    const auto first = token_of(encoding.spans, block.begin);
    if (!first) break;
    std::size_t last_character = block.end - 1;
    while (utf8_continues(text[last_character])) --last_character;
    const auto last = token_of(encoding.spans, last_character);
    const std::size_t end = last ? *last + 1 : out.generated.size();
    for (std::size_t i = *first; i < end; ++i) out.generated[i] = true;
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
