#include "decode/shown_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/model.h"

namespace lamina::decode {
namespace {

// True for a token like <0xE4>. A run of them is text only as a whole.
bool is_byte_token(const text::Tokenizer& tokenizer, std::int32_t token) {
  return tokenizer.token_bytes(token).size() == 1 && text::byte_of_token(tokenizer.spelling(token));
}

}  // namespace

ShownText::ShownText(const text::Tokenizer* tokenizer, const GenerateOptions& options,
                     const std::function<void(std::string_view)>& emit, std::string& text)
    : stream_(tokenizer ? tokenizer->stream(/*skip_special=*/true) : nullptr),
      stop_(options.stop),
      options_(options),
      emit_(emit),
      text_(text) {}

void ShownText::follow(std::span<const std::int32_t> before) {
  if (!stream_) return;
  for (const std::int32_t token : before) stream_->push(token);
}

void ShownText::push(std::int32_t token) {
  if (!stream_) return show(fmt::format("{}{}", text_.empty() ? "" : " ", token));
  show(stop_.push(stream_->push(token)));
  const auto& watched = options_.control_tokens;
  if (stopped() || std::ranges::find(watched, token) == watched.end()) return;
  show(stop_.finish());  // a stop string does not continue across it
  if (stopped()) return;
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

std::string text_after(const text::Tokenizer& tokenizer, std::span<const std::int32_t> before,
                       std::span<const std::int32_t> tokens) {
  const auto stream = tokenizer.stream(/*skip_special=*/true);
  for (const std::int32_t token : before) stream->push(token);
  std::string out;
  for (const std::int32_t token : tokens) out += stream->push(token);
  return out + stream->finish();
}

std::vector<std::int32_t> last_text_tokens(const text::Tokenizer& tokenizer,
                                           std::span<const std::int32_t> prompt) {
  constexpr std::size_t kEnough = 16;  // a cut character has at most three bytes, one per token
  std::vector<std::int32_t> out;
  for (std::size_t i = prompt.size();
       i-- > 0 && (out.size() < kEnough || is_byte_token(tokenizer, out.back()));)
    if (!tokenizer.is_special(prompt[i]) && !tokenizer.token_bytes(prompt[i]).empty())
      out.push_back(prompt[i]);
  std::ranges::reverse(out);
  return out;
}

}  // namespace lamina::decode
