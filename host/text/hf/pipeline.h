// A tokenizer made of parts: added tokens, normalizer, splitter, model, decoder. tokenizer.json
// describes them; other formats are converted to them.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/hf/added_tokens.h"
#include "text/hf/decoder_chain.h"
#include "text/hf/normalizer.h"
#include "text/hf/post_processor.h"
#include "text/hf/splitter.h"
#include "text/hf/tokenizer_files.h"
#include "text/model.h"
#include "text/tokenizer.h"

namespace lamina::text {

class WordCache;

struct PipelineParts {
  Normalizer normalizer;
  Splitter splitter;
  std::unique_ptr<WordModel> model;
  bool words_are_bytes = false;  // the model's tokens are bytes, not text
  // Then files write added and named tokens as text, not in GPT-2's alphabet.
  bool added_are_text = false;
  DecoderChain decoder;
  bool reads_special_tokens = true;  // default for special tokens in text
};

class Pipeline final : public Tokenizer {
 public:
  // `directory` has the tokenizer's files.
  Pipeline(std::string directory, PipelineParts parts);

  // A token may be added twice, and also be in the vocabulary, but always with the same id, which
  // no other token may have. Otherwise calls `refuse` with the error in the id.
  void add_token(AddedToken token, const std::function<void(std::string)>& refuse);
  // Adds a special token with its id in the vocabulary, if it has one and is not added yet.
  void add_named(AddedToken token);
  // Finds an added token, or one of the vocabulary as files name it: in GPT-2's alphabet a space is
  // "Ġ", so " " is no token of such a vocabulary.
  std::optional<TokenId> find_spelt(const std::string& content) const;
  // True if a token with this content was added.
  bool has_added(const std::string& content) const { return by_content_.contains(content); }
  // Another id of a token that was already added: decodes like it and is never found in a text.
  void add_other_id(TokenId id, const std::string& content, bool special);
  void set_template(PostTemplate around) { template_ = std::move(around); }
  // For vocabularies that are not byte-level.
  void set_cleans_up_spaces(bool on) { cleans_up_spaces_ = on; }
  void set_names(const TokenNames& names);
  void set_own_ids(std::int64_t count) { own_ids_ = count; }
  void set_ids(std::optional<TokenId> bos, std::optional<TokenId> eos, std::optional<TokenId> pad);

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  Encoding encode_with_spans(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::unique_ptr<TextStream> stream(bool skip_special) const override;
  std::string_view token_bytes(TokenId id) const override;
  std::string spelling(TokenId id) const override;
  bool is_special(TokenId id) const override;
  bool reads_special_tokens() const override { return reads_special_tokens_; }
  std::vector<AddedText> added_tokens() const override;
  std::optional<TokenId> find_token(std::string_view text) const override;
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::int64_t num_own_ids() const override { return own_ids_.value_or(vocab_size_); }
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }
  std::optional<TokenId> pad_id() const override { return pad_id_; }
  std::vector<std::string> save(const std::string& directory) const override;

 private:
  struct Added {
    std::string form;   // the searched and displayed form
    std::string bytes;  // for byte-level vocabularies
    bool special;
  };
  class Run;
  class Stream;

  void encode_into(std::string_view text, const EncodeOptions& options, Encoding& out,
                   bool with_spans) const;
  std::string bytes_of_form(const std::string& form) const;
  bool text_is_bytes() const { return words_are_bytes_ && decoder_.is_byte_level(); }
  std::string text_of(TokenId id) const;
  void make_bytes() const;

  std::string directory_;
  Normalizer normalizer_;
  Splitter splitter_;
  std::unique_ptr<WordModel> model_;
  bool words_are_bytes_, added_are_text_;
  DecoderChain decoder_;
  bool reads_special_tokens_;
  bool cleans_up_spaces_ = false;
  PostTemplate template_;
  AddedTokenMatcher raw_;         // searched in the unchanged text
  AddedTokenMatcher normalized_;  // searched in the normalized text
  std::unordered_map<TokenId, Added> added_;
  TokenId first_added_ = std::numeric_limits<TokenId>::max();  // usually they are last
  std::unordered_map<std::string, TokenId> by_content_;
  std::int64_t vocab_size_ = 0;
  std::optional<std::int64_t> own_ids_;
  std::optional<TokenId> bos_id_, eos_id_, pad_id_;
  // Bytes of each token in the middle of a text, if they differ from the vocabulary's; computed at
  // the first request.
  mutable std::once_flag bytes_made_;
  mutable std::vector<std::string> bytes_;
};

}  // namespace lamina::text
