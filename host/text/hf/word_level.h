// The model "WordLevel" of tokenizer.json: every word is one token.
#pragma once

#include "text/model.h"
#include "text/vocabulary.h"

namespace lamina::text {

class WordLevel final : public WordModel {
 public:
  explicit WordLevel(const JsonValue& model);

  std::size_t num_ids() const override { return vocabulary_.num_ids(); }
  std::string_view token(TokenId id) const override { return vocabulary_.token(id); }
  std::optional<TokenId> find(std::string_view token) const override {
    return vocabulary_.find(token);
  }
  void encode(std::string_view word, TokenSink& out) const override;

 private:
  Vocabulary vocabulary_;
  std::optional<TokenId> unknown_;
};

}  // namespace lamina::text
