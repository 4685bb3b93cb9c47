#include "chat/answer_mask.h"

#include <algorithm>
#include <optional>

namespace lamina::chat {
namespace {

// Where each character begins, and the end.
std::vector<std::size_t> character_starts(const std::string& text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) out.push_back(i);
  out.push_back(text.size());
  return out;
}

// The first token that the byte is of; tokens stand in the order of the text.
std::optional<std::size_t> token_of(const std::vector<text::Span>& spans, std::size_t byte) {
  const auto found = std::partition_point(
      spans.begin(), spans.end(), [byte](const text::Span& span) { return span.end <= byte; });
  if (found == spans.end() || found->begin > byte) return {};
  return static_cast<std::size_t>(found - spans.begin());
}

}  // namespace

MaskedTokens encode_with_mask(const text::Tokenizer& tokenizer, const jinja::Rendered& rendered) {
  text::Encoding encoding =
      tokenizer.encode_with_spans(rendered.text, {.add_special = false, .parse_special = true});
  MaskedTokens out{std::move(encoding.ids), std::vector<bool>(encoding.spans.size())};
  const std::vector<std::size_t> starts = character_starts(rendered.text);
  for (const jinja::Span& block : rendered.generated) {
    if (block.begin == block.end) continue;
    const auto first = token_of(encoding.spans, starts[block.begin]);
    if (!first) break;
    const auto last = token_of(encoding.spans, starts[block.end - 1]);
    const std::size_t end = last ? *last + 1 : out.generated.size();
    for (std::size_t i = *first; i < end; ++i) out.generated[i] = true;
  }
  return out;
}

}  // namespace lamina::chat
