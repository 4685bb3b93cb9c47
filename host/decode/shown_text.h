// Text that is safe to show, from tokens one by one: whole characters, no part of a stop string.
#pragma once

#include <memory>
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

}  // namespace lamina::decode
