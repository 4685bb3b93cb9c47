// The files that a tokenizer is made of beside the one with its vocabulary.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/hf/added_tokens.h"

namespace lamina::text {

// Tokens that have a name, by their text.
struct TokenNames {
  std::optional<std::string> bos, eos, pad, unk;
  // Whether a text gets them, where the tokenizer has no template that says so.
  bool add_bos = false, add_eos = false;
};

// From tokenizer_config.json, for what it leaves out from special_tokens_map.json; both may lack.
// Errors (class checkpoint): a file is damaged, a name is not a text.
TokenNames read_token_names(const std::string& directory);

// The tokens of tokenizer_config.json ("added_tokens_decoder"), or of added_tokens.json in older
// directories, in order of their ids; none if both lack. Errors (class checkpoint).
std::vector<AddedToken> read_added_tokens(const std::string& directory);

// The class of the tokenizer, from tokenizer_config.json, or else the type of the model, from
// config.json; nothing where neither says one. Errors (class checkpoint): a file is damaged, the
// name is not a text.
std::optional<std::string> read_tokenizer_class(const std::string& directory);

// Copies the files of a tokenizer that `from` has, and returns their names. Errors (class
// checkpoint): `from` is no directory.
std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to);

}  // namespace lamina::text
