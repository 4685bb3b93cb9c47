// The model "BPE" of tokenizer.json: byte-pair encoding with a list of merges, over bytes or
// characters.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/merge_table.h"
#include "text/model.h"
#include "text/symbol_table.h"
#include "text/vocabulary.h"

namespace lamina::text {

class Bpe final : public WordModel {
 public:
  // The units of words: bytes for a byte-level vocabulary, otherwise characters.
  enum class Symbols { bytes, characters };

  // Reads the value of the key "model". Errors (class checkpoint): a feature that lamina lacks, bad
  // ids, merges of tokens that do not exist.
  Bpe(const JsonValue& model, Symbols symbols);
  // Over bytes. With `ignore_merges` a word that is a token is that token.
  Bpe(Vocabulary vocabulary, MergeTable merges, bool ignore_merges);
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  // True if the file uses a feature that byte-level vocabularies in use never have, so that its
  // words must be encoded as characters of GPT-2's alphabet.
  static bool needs_characters(const JsonValue& model);

  std::size_t num_ids() const override { return vocabulary_.num_ids(); }
  std::string_view token(TokenId id) const override { return vocabulary_.token(id); }
  std::optional<TokenId> find(std::string_view token) const override {
    return vocabulary_.find(token);
  }
  // Throws UserError for a byte or character that the vocabulary cannot encode.
  void encode(std::string_view word, TokenSink& out) const override;
  std::size_t independent_prefix(std::string_view word) const override;

 private:
  void read_options(const JsonValue& model);
  void index_bytes();
  void index_characters();
  void byte_parts(std::string_view word, std::vector<MergePart>& parts) const;
  void character_parts(std::string_view word, std::vector<MergePart>& parts) const;
  bool has_byte_tokens(std::string_view symbol) const;

  Symbols symbols_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_{};  // of single bytes, or of the tokens "<0xE4>"; -1 = none
  bool ignore_merges_ = false;           // a word that is a token becomes it without merges
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  std::optional<TokenId> unknown_;
  std::string prefix_, suffix_;  // of tokens inside a word, and of tokens that end a word
  std::unique_ptr<SymbolTable> characters_;
  bool words_have_parts_ = false;  // true if independent_prefix() may cut
};

}  // namespace lamina::text
