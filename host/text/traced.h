// Text that is rewritten on its way to the model, with the original span of each byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

// A piece of text (valid UTF-8), borrowed.
struct TextPiece {
  std::string_view text;
  const Span* origins = nullptr;  // one per byte of text; null if not needed
  std::size_t start_bytes = 0;    // bytes at its begin that come from the text's first character

  TextPiece part(std::size_t begin, std::size_t end) const {
    return {text.substr(begin, end - begin), origins ? origins + begin : nullptr,
            start_bytes > begin ? start_bytes - begin : 0};
  }
};

// Origins of unchanged text: each byte comes from its own character.
std::vector<Span> identity_origins(std::string_view text);

// Writes the next form of a piece, from its beginning to its end.
//   for (Rewriter out(piece); !out.done();) ... out.keep(n) or out.replace(n, "x") ...
class PieceWriter {
 public:
  explicit PieceWriter(const TextPiece& in) : in_(in) {}

  const TextPiece& input() const { return in_; }
  std::string_view rest() const { return in_.text.substr(at_); }
  bool done() const { return at_ == in_.text.size(); }
  // True if the next bytes come from the text's first character.
  bool is_at_start() const { return at_ < in_.start_bytes; }

  void keep(std::size_t num_bytes);
  void keep_rest() { keep(in_.text.size() - at_); }
  void drop(std::size_t num_bytes) { replace(num_bytes, ""); }
  // Likewise; at the start of the text, the following character counts as its first one.
  void drop_before_next(std::size_t num_bytes);
  // Replaces the next bytes (at least one) by `with`, whose origin is their first character.
  void replace(std::size_t num_bytes, std::string_view with);
  // Likewise with their last character as origin.
  void replace_as_last(std::size_t num_bytes, std::string_view with);
  // Inserts `text` before the next bytes, with their origin. REQUIRES: the input is not empty.
  void insert(std::string_view text);

  // The result; borrowed from the rewriter, or from the input if nothing changed.
  TextPiece output() const;

 private:
  void put(std::string_view text, std::size_t origin);

  TextPiece in_;
  std::size_t at_ = 0;
  bool changed_ = false;  // nothing is copied before the first change
  std::string text_;
  std::size_t start_bytes_ = 0;  // of text_
  std::vector<Span> origins_;
};

}  // namespace lamina::text
