// The files of a tokenizer besides the one with its vocabulary.
#pragma once

#include <functional>
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

// Tokens that files make special, without ids: -1.
struct SpecialTokens {
  std::vector<AddedToken> named;   // by a key: "eos_token", "mask_token", "image_token" ...
  std::vector<AddedToken> listed;  // in "extra_special_tokens" or "additional_special_tokens"
};

// tokenizer_config.json and special_tokens_map.json of a directory, read once; both may be missing.
// Errors of all functions (class checkpoint): a file is damaged, a value has another type.
class TokenizerFiles {
 public:
  explicit TokenizerFiles(std::string directory);

  const std::string& directory() const { return directory_; }

  // A key that the files lack keeps its value of `absent`; null removes it.
  TokenNames names(TokenNames absent = {}) const;

  // Returns a key of tokenizer_config.json that is true or false; nothing if it is missing or null.
  std::optional<bool> flag_of(std::string_view key) const;

  SpecialTokens special_tokens() const;

  // Returns the tokens of tokenizer_config.json ("added_tokens_decoder") in order of their ids; a
  // named one is special. Nothing if the key is missing.
  std::optional<std::vector<AddedToken>> config_tokens() const;

  // Likewise, or in older directories the tokens of added_tokens.json; named and listed ones are
  // special. None if both are missing.
  std::vector<AddedToken> added_tokens() const;

  // Returns the class of the tokenizer from tokenizer_config.json, else the type of the model from
  // config.json; nothing if both lack it.
  std::optional<std::string> class_name() const;

 private:
  // Calls `read` for each file that exists; values of later ones count.
  void for_each(const std::function<void(const JsonValue&)>& read) const;

  std::string directory_;
  std::optional<JsonDocument> config_, map_;
};

// Copies the tokenizer files in `from`, and returns their names. Errors (class checkpoint): `from`
// is not a directory.
std::vector<std::string> copy_tokenizer_files(const std::string& from, const std::string& to);

}  // namespace lamina::text
