// Tokens and their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash_index.h"
#include "core/json.h"
#include "text/tokenizer.h"

namespace lamina::text {

// Ids of a vocabulary are below this, which is far above any in use: it bounds the allocations for
// a damaged file.
inline constexpr std::int64_t kMaxIds = std::int64_t{1} << 24;

class Vocabulary {
 public:
  enum class Form {
    text,        // a token is its text
    byte_level,  // in GPT-2's alphabet: stored as bytes, if it contains all their characters
  };

  // The id that find() returns for equal tokens.
  enum class Equal { first, last };

  // `by_id`: empty for an id without a token. Throws UserError (class checkpoint, at `where`) for
  // more than 4 GiB.
  Vocabulary(std::span<const std::string_view> by_id, Form form, const std::string& where,
             Equal equal = Equal::first);
  // Reads an object of tokens and their ids. Errors: ids out of range, or duplicate; empty tokens.
  static Vocabulary read(const JsonValue& json, Form form);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // Returns true if two ids have the same token.
  bool has_equal_tokens() const { return has_equal_tokens_; }
  std::size_t num_ids() const { return offsets_.size() - 1; }
  std::string_view token(TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return {text_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }
  std::optional<TokenId> find(std::string_view token) const { return find(token, hash(token)); }
  // Likewise for many lookups: first all hashes, prefetch() of all, prefetch_text() of all.
  static std::uint64_t hash(std::string_view token);
  void prefetch(std::uint64_t hash) const { ids_.prefetch(hash); }
  void prefetch_text(std::uint64_t hash) const {
    const TokenId likely = ids_.find(hash, [](TokenId) { return true; });
    if (likely >= 0) __builtin_prefetch(token(likely).data());
  }
  std::optional<TokenId> find(std::string_view text, std::uint64_t hash) const {
    const TokenId id = ids_.find(hash, [&](TokenId i) { return token(i) == text; });
    return id < 0 ? std::nullopt : std::optional(id);
  }

 private:
  std::vector<char> text_;              // of all tokens, by id
  std::vector<std::uint32_t> offsets_;  // into text_; one more than ids
  HashIndex ids_;
  bool has_equal_tokens_ = false;
};

// A checked id of a file: from 0 to num_ids - 1.
TokenId read_id(const JsonValue& value, std::int64_t num_ids);

}  // namespace lamina::text
