// Text that is rewritten on its way to the model, and where in the original each byte came from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

// A piece of text (valid UTF-8), borrowed.
struct Piece {
  std::string_view text;
  const Span* origins = nullptr;  // one per byte of text; null where nobody asks for them
  bool at_start = false;          // whether the original text begins with it

  Piece part(std::size_t begin, std::size_t end) const {
    return {text.substr(begin, end - begin), origins ? origins + begin : nullptr,
            at_start && begin == 0};
  }
};

// The text as it is: each byte comes from its own character.
std::vector<Span> identity_origins(std::string_view text);

// Writes the next form of a piece, from its beginning to its end.
//   for (Rewriter out(piece); !out.done();) ... out.keep(n) or out.replace(n, "x") ...
class Rewriter {
 public:
  explicit Rewriter(const Piece& in) : in_(in) {}

  const Piece& input() const { return in_; }
  std::string_view rest() const { return in_.text.substr(at_); }
  bool done() const { return at_ == in_.text.size(); }

  void keep(std::size_t num_bytes);
  void keep_rest() { keep(in_.text.size() - at_); }
  void drop(std::size_t num_bytes) { replace(num_bytes, ""); }
  // The next bytes (at least one) become `with`, which comes from their first character.
  void replace(std::size_t num_bytes, std::string_view with);
  // Likewise from their last character.
  void replace_as_last(std::size_t num_bytes, std::string_view with);
  // Puts `text` before what follows, as if it came from there.
  void insert(std::string_view text);

  // What was written; borrowed from the rewriter, or from the input if nothing changed.
  Piece output() const;

 private:
  void put(std::string_view text, std::size_t origin);

  Piece in_;
  std::size_t at_ = 0;
  bool changed_ = false;  // until then nothing is copied
  std::string text_;
  std::vector<Span> origins_;
};

}  // namespace lamina::text
