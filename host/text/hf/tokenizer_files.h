// The files of a tokenizer besides the one with its vocabulary.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/hf/added_tokens.h"

namespace lamina::text {

// Named tokens, by their text.
struct TokenNames {
  std::optional<std::string> bos, eos, pad, unk;
  // True if a text gets them, for a tokenizer without a template.
  bool add_bos = false, add_eos = false;
};

// True if special_tokens_map.json replaces values of this tokenizer_config.json, which may be
// missing. As in transformers: a config that lists its added tokens is complete.
bool uses_special_tokens_map(const JsonValue& config);

// Reads tokenizer_config.json and special_tokens_map.json; both may be missing. A key that they
// lack keeps its value of `absent`; null removes it. Errors (class checkpoint): a file is damaged,
// a name is not a text.
TokenNames read_token_names(const std::string& directory, TokenNames absent = {});

// Returns a key of tokenizer_config.json that is true or false; nothing if it is missing or null.
// Errors (class checkpoint): the file is damaged, the value has another type.
std::optional<bool> read_tokenizer_flag(const std::string& directory, std::string_view key);

// Tokens that the same two files make special, without ids: -1.
struct SpecialTokens {
  std::vector<AddedToken> named;   // by a key: "eos_token", "mask_token", "image_token" ...
  std::vector<AddedToken> listed;  // in "extra_special_tokens" or "additional_special_tokens"
};

// Errors (class checkpoint): a file is damaged.
SpecialTokens read_special_tokens(const std::string& directory);

// The tokens of tokenizer_config.json ("added_tokens_decoder") in order of their ids; a named one
// is special. Nothing if the key is missing. Errors (class checkpoint).
std::optional<std::vector<AddedToken>> read_config_tokens(const std::string& directory);

// Likewise, or in older directories the tokens of added_tokens.json; named and listed ones are
// special. None if both are missing.
std::vector<AddedToken> read_added_tokens(const std::string& directory);

// The class of the tokenizer from tokenizer_config.json, else the type of the model from
// config.json; nothing if both lack it. Errors (class checkpoint): a file is damaged, the name is
// not a text.
std::optional<std::string> read_tokenizer_class(const std::string& directory);

// Copies the tokenizer files in `from`, and returns their names. Errors (class checkpoint): `from`
// is not a directory.
std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to);

}  // namespace lamina::text
