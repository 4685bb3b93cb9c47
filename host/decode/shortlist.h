// The part of a row of logits that mostly decides the next token. A device whose memory the host
// does not reach selects it, and the rest of the row is copied only if needed.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

namespace lamina::decode {

// The part to select. The default: none, rows are copied whole.
struct ShortlistShape {
  std::int64_t likeliest = 0;  // this many of the likeliest tokens
  bool at_draw = false;        // or the tokens around the draw
  bool is_whole() const { return likeliest == 0 && !at_draw; }
  bool operator==(const ShortlistShape&) const = default;
};

// The likeliest tokens of a row; all if there are as many as in the vocabulary.
struct LikeliestTokens {
  std::span<const float> logits;      // largest first, equal ones by id
  std::span<const std::int32_t> ids;  // of the logits
  double weight = 0;                  // sum of exp((logit - largest) / temperature) over the row;
                                      // NaN if its logits are not numbers
  std::int64_t vocab = 0;             // tokens of the row
};

// The tokens among which a draw from the whole row falls.
struct TokensAtDraw {
  std::span<const float> logits;  // of the tokens `first`, `first` + 1, ...
  std::int32_t first = 0;
  double before = 0;  // weight of the tokens before `first`
  float largest = 0;  // of the row
  double weight = 0;  // of the row, as in LikeliestTokens
  std::int64_t vocab = 0;
};

using Shortlist = std::variant<LikeliestTokens, TokensAtDraw>;

}  // namespace lamina::decode
