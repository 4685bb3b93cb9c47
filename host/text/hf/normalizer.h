// Unicode normal forms, lower case, replacements: the normalizers of tokenizer.json.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/traced.h"

namespace lamina::text {

class Normalizer {
 public:
  // strip_accents drops combining marks (general category M).
  enum class Step { nfc, nfd, nfkc, nfkd, lowercase, strip_accents };
  // Rewrites a piece.
  using Rewrite = std::function<void(PieceWriter&)>;

  Normalizer() = default;  // changes nothing
  explicit Normalizer(const std::vector<Step>& steps);
  // Reads the value of the key "normalizer"; may be null. Errors: a type that lamina lacks.
  explicit Normalizer(const JsonValue& json);

  bool changes_nothing() const { return steps_.empty(); }
  // `text` must be valid UTF-8; the result is, too.
  std::string normalize(std::string_view text) const;
  // Likewise; `owner` stores the text that the result borrows.
  TextPiece normalize(const TextPiece& piece, std::deque<PieceWriter>& owner) const;

 private:
  void add(const JsonValue& json);
  std::vector<Rewrite> steps_;
};

}  // namespace lamina::text
