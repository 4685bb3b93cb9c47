// The built-in tokenizer: one token per byte.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace lamina::text {

// Its file in a checkpoint directory.
inline constexpr const char* kByteTokenizerFile = "lamina_tokenizer.json";

// Errors (class checkpoint): the file is damaged or has an unknown type or version.
std::unique_ptr<Tokenizer> load_byte_tokenizer(const std::string& directory);

}  // namespace lamina::text
