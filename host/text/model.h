// What the models of tokenizer.json (BPE, Unigram, WordLevel) have in common: a vocabulary, and the
// tokens of one word.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace lamina::text {

// Where a model puts its tokens.
struct TokenSink {
  std::vector<TokenId>& ids;
  std::vector<Span>* spans = nullptr;  // of each id, in bytes of the word; null: not asked for

  void add(TokenId id, std::size_t begin, std::size_t end) {
    ids.push_back(id);
    if (spans) spans->push_back({begin, end});
  }
};

// Const and safe to share between threads.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Of no other model of this process, unlike its address.
  std::uint64_t serial() const { return serial_; }

  // One more than the largest id.
  virtual std::size_t num_ids() const = 0;
  // The token's text; empty for an id without a token. Borrowed from the model.
  virtual std::string_view token(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view token) const = 0;

  // Appends the tokens of one word, which is not empty. A UserError (class data) where the
  // vocabulary cannot write it.
  virtual void encode(std::string_view word, TokenSink& out) const = 0;
  // How much of the beginning of `word` may be encoded apart from the rest with the same result.
  virtual std::size_t independent_prefix(std::string_view word) const { return word.size(); }

 private:
  static std::uint64_t next_serial() {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
  }
  const std::uint64_t serial_ = next_serial();
};

// "<0xE4>" is the token of a byte in vocabularies that are not byte-level.
std::optional<unsigned char> byte_of_token(std::string_view token);
std::string token_of_byte(unsigned char byte);

}  // namespace lamina::text
