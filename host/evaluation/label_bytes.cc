#include "evaluation/label_bytes.h"

#include <algorithm>
#include <vector>

namespace lamina::evaluation {
namespace {

constexpr const char* kLetter = "a";

}  // namespace

std::int64_t LabelBytes::of(text::TokenId token, text::TokenId before) {
  if (tokenizer_.is_special(token)) return 0;
  const std::string_view bytes = tokenizer_.token_bytes(token);
  const bool added =
      bytes.starts_with(' ') && tokenizer_.is_special(before) && adds_space_after(before);
  return static_cast<std::int64_t>(bytes.size()) - (added ? 1 : 0);
}

// Encodes a letter after the token: the one of the tokenizer's template, else one in the text.
bool LabelBytes::adds_space_after(text::TokenId special) {
  const auto [known, is_new] = known_.try_emplace(special, false);
  if (!is_new) return known->second;
  for (const auto& ids : {tokenizer_.encode(kLetter),
                          tokenizer_.encode(tokenizer_.spelling(special) + kLetter,
                                            {.add_special = false, .parse_special = true})}) {
    const auto at = std::ranges::find(ids, special);
    if (at == ids.end() || at + 1 == ids.end()) continue;
    known->second = tokenizer_.token_bytes(*(at + 1)).starts_with(' ');
    break;
  }
  return known->second;
}

}  // namespace lamina::evaluation
