#include "decode/shown_text.h"

#include <fmt/format.h>

namespace lamina::decode {

ShownText::ShownText(const text::Tokenizer* tokenizer, const std::vector<std::string>& stop,
                     const std::function<void(std::string_view)>& emit, std::string& text)
    : stream_(tokenizer ? tokenizer->stream(/*skip_special=*/true) : nullptr),
      stop_(stop),
      emit_(emit),
      text_(text) {}

void ShownText::push(std::int32_t token) {
  if (stream_)
    show(stop_.push(stream_->push(token)));
  else
    show(fmt::format("{}{}", text_.empty() ? "" : " ", token));
}

void ShownText::finish() {
  if (!stream_) return;
  show(stop_.push(stream_->finish()));
  if (!stopped()) show(stop_.finish());
}

void ShownText::show(std::string_view piece) {
  if (piece.empty()) return;
  text_ += piece;
  if (emit_) emit_(piece);
}

}  // namespace lamina::decode
