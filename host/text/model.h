// The interface of the models of tokenizer.json (BPE, Unigram, WordLevel): a vocabulary, and the
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

// Receives the tokens of a model.
struct TokenSink {
  std::vector<TokenId>& ids;
  std::vector<Span>* spans = nullptr;  // of each id, in bytes of the word; null: not needed

  void add(TokenId id, std::size_t begin, std::size_t end) {
    ids.push_back(id);
    if (spans) spans->push_back({begin, end});
  }
};

// Const and safe to share between threads.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Unique among the models of this process, unlike an address.
  std::uint64_t serial() const { return serial_; }

  // One more than the largest id.
  virtual std::size_t num_ids() const = 0;
  // The token's text; empty for an id without a token. Borrowed from the model.
  virtual std::string_view token(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view token) const = 0;

  // Appends the tokens of one word, which is not empty. Throws UserError (class data) if the
  // vocabulary cannot encode it.
  virtual void encode(std::string_view word, TokenSink& out) const = 0;
  // Number of leading bytes of `word` that may be encoded separately from the rest with the same
  // result.
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
