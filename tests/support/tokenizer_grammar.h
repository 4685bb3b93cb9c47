// tokenizer.json documents from the format's grammar, most of them with a structural mistake that a
// flipped byte would not make: a list too short, an id too large, a value of another kind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lamina::testing {

// Returns a number below `n`, which is at least 1. From a seeded generator, or from a fuzzer's
// bytes.
using Choose = std::function<std::uint32_t(std::uint32_t n)>;

struct TokenizerDocument {
  std::string json;
  // True if the document has no mistake and changes no text, so that decoding restores encoded
  // text.
  bool keeps_text = true;
};

TokenizerDocument make_tokenizer_document(const Choose& choose);

}  // namespace lamina::testing
