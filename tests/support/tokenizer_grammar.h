// tokenizer.json documents from the format's grammar, most of them with a mistake of structure that
// no flipped byte would make: a list too short, an id too large, a value of another kind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lamina::testing {

// A number below `n`, at least 1. From a generator with a seed, or from the bytes of a fuzzer.
using Choose = std::function<std::uint32_t(std::uint32_t n)>;

struct TokenizerDocument {
  std::string json;
  // Nothing in it is wrong or changes text, so whatever loads it gives back what it encodes.
  bool keeps_text = true;
};

TokenizerDocument make_tokenizer_document(const Choose& choose);

}  // namespace lamina::testing
