// Text that is safe to show, from tokens one by one: whole characters, no part of a stop string.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/generate.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace lamina::decode {

class ShownText {
 public:
  // All arguments are borrowed: `text` collects all shown text, `emit` (may be empty) gets it as it
  // arrives. Without a tokenizer the text is ids in decimal, separated by spaces.
  ShownText(const text::Tokenizer* tokenizer, const GenerateOptions& options,
            const std::function<void(std::string_view)>& emit, std::string& text);

  // Reads tokens in front of the output, before the first push(). Their text is not shown, except
  // for the end of a character that the output completes.
  void follow(std::span<const std::int32_t> before);
  void push(std::int32_t token);
  bool stopped() const { return stop_.found().has_value(); }
  void finish();

 private:
  void show(std::string_view piece);

  std::unique_ptr<text::TextStream> stream_;
  text::StopMatcher stop_;
  const GenerateOptions& options_;
  const std::function<void(std::string_view)>& emit_;
  std::string& text_;
};

// The text of `tokens` as ShownText shows it after `before`, without stop strings.
std::string text_after(const text::Tokenizer& tokenizer, std::span<const std::int32_t> before,
                       std::span<const std::int32_t> tokens);

// The end of `prompt` that determines how the text of the next token begins, so that long prompts
// are not read for each text.
std::vector<std::int32_t> last_text_tokens(const text::Tokenizer& tokenizer,
                                           std::span<const std::int32_t> prompt);

}  // namespace lamina::decode
