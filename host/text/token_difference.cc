#include "text/token_difference.h"

namespace lamina::text {

std::optional<TokenDifference> first_difference(const Tokenizer& ours, const Tokenizer& theirs) {
  for (std::int64_t id = 0; id < theirs.vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    TokenDifference out{.id = id, .ours = "", .theirs = theirs.spelling(token)};
    if (id < ours.vocab_size()) out.ours = ours.spelling(token);
    if (!out.theirs.empty() && out.ours != out.theirs) return out;
  }
  return std::nullopt;
}

}  // namespace lamina::text
