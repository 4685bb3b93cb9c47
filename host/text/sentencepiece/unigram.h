// The model "Unigram" of tokenizer.json (Kudo 2018): the split of a word into tokens with the
// largest sum of scores, found by Viterbi's algorithm.
#pragma once

#include <array>
#include <vector>

#include "text/model.h"
#include "text/token_trie.h"
#include "text/vocabulary.h"

namespace lamina::text {

class Unigram final : public WordModel {
 public:
  // Reads the value of the key "model". Errors (class checkpoint): an entry that is not a token and
  // its score, a score that is not a number, an unk_id outside the vocabulary.
  explicit Unigram(const JsonValue& model);

  std::size_t num_ids() const override { return vocabulary_.num_ids(); }
  std::string_view token(TokenId id) const override { return vocabulary_.token(id); }
  std::optional<TokenId> find(std::string_view token) const override;
  void encode(std::string_view word, TokenSink& out) const override;

 private:
  void read_scores(const JsonValue& vocabulary);
  void add(std::string_view word, std::size_t begin, std::size_t end, TokenSink& out) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  TokenTrie trie_;
  double unknown_score_ = 0;
  std::optional<TokenId> unknown_;
  bool byte_fallback_ = false;
};

}  // namespace lamina::text
