#include "text/traced.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/characters.h"

namespace lamina::text {

std::vector<Span> identity_origins(std::string_view text) {
  std::vector<Span> origins;
  origins.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_bytes(text[at]);
    origins.insert(origins.end(), length, {at, at + length});
    at += length;
  }
  return origins;
}

void PieceWriter::put(std::string_view text, std::size_t origin) {
  if (!changed_) {  // all input so far was kept
    text_.reserve(in_.text.size() + in_.text.size() / 2 + 8);
    text_.assign(in_.text.substr(0, at_));
    start_bytes_ = std::min(in_.start_bytes, at_);
    if (in_.origins) origins_.assign(in_.origins, in_.origins + at_);
    changed_ = true;
  }
  if (start_bytes_ == text_.size() && origin < in_.start_bytes) start_bytes_ += text.size();
  text_ += text;
  if (in_.origins && !text.empty())
    origins_.insert(origins_.end(), text.size(), in_.origins[origin]);
}

void PieceWriter::keep(std::size_t num_bytes) {
  if (changed_) {
    if (start_bytes_ == text_.size() && at_ < in_.start_bytes)
      start_bytes_ += std::min(num_bytes, in_.start_bytes - at_);
    text_ += in_.text.substr(at_, num_bytes);
    if (in_.origins)
      origins_.insert(origins_.end(), in_.origins + at_, in_.origins + at_ + num_bytes);
  }
  at_ += num_bytes;
}

void PieceWriter::replace(std::size_t num_bytes, std::string_view with) {
  put(with, at_);
  at_ += num_bytes;
}

void PieceWriter::drop_before_next(std::size_t num_bytes) {
  const bool starts = at_ < in_.start_bytes;
  drop(num_bytes);
  if (starts && text_.empty() && !done()) in_.start_bytes = at_ + character_bytes(in_.text[at_]);
}

void PieceWriter::replace_as_last(std::size_t num_bytes, std::string_view with) {
  put(with, at_ + num_bytes - 1);
  at_ += num_bytes;
}

void PieceWriter::insert(std::string_view text) {
  put(text, at_ < in_.text.size() ? at_ : in_.text.size() - 1);
}

TextPiece PieceWriter::output() const {
  if (!changed_) return in_;
  return {text_, in_.origins ? origins_.data() : nullptr, start_bytes_};
}

}  // namespace lamina::text
