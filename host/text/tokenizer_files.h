// The files that a tokenizer is made of beside the one with its vocabulary.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

// Tokens that have a name, by their text.
struct TokenNames {
  std::optional<std::string> bos, eos, pad, unk;
};

// From tokenizer_config.json, for what it leaves out from special_tokens_map.json; both may lack.
// Errors (class checkpoint): a file is damaged, a name is not a text.
TokenNames read_token_names(const std::string& directory);

// Copies the files of a tokenizer that `from` has, and returns their names.
std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to);

}  // namespace lamina::text
