#include "decode/shown_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace lamina::decode {

ShownText::ShownText(const text::Tokenizer* tokenizer, const GenerateOptions& options,
                     const std::function<void(std::string_view)>& emit, std::string& text)
    : stream_(tokenizer ? tokenizer->stream(/*skip_special=*/true) : nullptr),
      stop_(options.stop),
      options_(options),
      emit_(emit),
      text_(text) {}

void ShownText::push(std::int32_t token) {
  if (!stream_) return show(fmt::format("{}{}", text_.empty() ? "" : " ", token));
  show(stop_.push(stream_->push(token)));
  const auto& watched = options_.control_tokens;
  if (stopped() || std::ranges::find(watched, token) == watched.end()) return;
  show(stop_.finish());  // a stop string does not continue across it
  options_.on_control(token);
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
