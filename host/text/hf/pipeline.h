// A tokenizer of parts: added tokens, normalizer, splitter, model, decoder; what tokenizer.json
// describes and what other formats are made into.
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
  DecoderChain decoder;
  bool reads_special_tokens = true;  // in text, unless told otherwise
};

class Pipeline final : public Tokenizer {
 public:
  // `directory` holds the tokenizer's files.
  Pipeline(std::string directory, PipelineParts parts);

  // A token may be added twice, and be in the vocabulary, too; but with one id, and that its own.
  // Calls `refuse` with what is wrong with the id otherwise.
  void add_token(AddedToken token, const std::function<void(std::string)>& refuse);
  // Another id of a token that was added already: decodes like it and is never found in a text.
  void add_other_id(TokenId id, const std::string& content, bool special);
  void set_template(Template around) { template_ = std::move(around); }
  void set_names(const TokenNames& names);
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
  std::optional<TokenId> bos_id() const override { return bos_id_; }
  std::optional<TokenId> eos_id() const override { return eos_id_; }
  std::optional<TokenId> pad_id() const override { return pad_id_; }
  std::vector<std::string> save(const std::string& directory) const override;

 private:
  struct Added {
    std::string form;   // as it is looked for and shown
    std::string bytes;  // of byte-level vocabularies: the form through their alphabet
    bool special;
  };
  class Run;
  class Stream;

  void encode_into(std::string_view text, const EncodeOptions& options, Encoding& out,
                   bool with_spans) const;
  bool text_is_bytes() const { return words_are_bytes_ && decoder_.is_byte_level(); }
  std::string text_of(TokenId id) const;
  void make_bytes() const;

  std::string directory_;
  Normalizer normalizer_;
  Splitter splitter_;
  std::unique_ptr<WordModel> model_;
  bool words_are_bytes_;
  DecoderChain decoder_;
  bool reads_special_tokens_;
  Template template_;
  AddedTokenMatcher raw_;         // looked for in the text as it is
  AddedTokenMatcher normalized_;  // and in the normalized text
  std::unordered_map<TokenId, Added> added_;
  TokenId first_added_ = std::numeric_limits<TokenId>::max();  // most vocabularies have them last
  std::unordered_map<std::string, TokenId> by_content_;
  std::int64_t vocab_size_ = 0;
  std::optional<TokenId> bos_id_, eos_id_, pad_id_;
  // Of each token in the middle of a text, where they are not those of the vocabulary; made when
  // first asked for.
  mutable std::once_flag bytes_made_;
  mutable std::vector<std::string> bytes_;
};

}  // namespace lamina::text
