// Byte-pair encoding of tiktoken: the rank of a token is its id, and a word that is a token becomes
// that token.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/model.h"
#include "text/vocabulary.h"

namespace lamina::text {

class RankedBpe final : public WordModel {
 public:
  // `tokens` by id: bytes, empty for an id without a token. `path` is for errors (class
  // checkpoint): a byte without a token.
  RankedBpe(std::span<const std::string_view> tokens, const std::string& path);

  std::size_t num_ids() const override { return vocabulary_.num_ids(); }
  std::string_view token(TokenId id) const override { return vocabulary_.token(id); }
  std::optional<TokenId> find(std::string_view token) const override {
    return vocabulary_.find(token);
  }
  void encode(std::string_view word, TokenSink& out) const override;

 private:
  Vocabulary vocabulary_;
  TokenId bytes_[256] = {};
  std::size_t longest_ = 0;  // bytes of a token
};

}  // namespace lamina::text
