// Tokens and their ids.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace lamina::text {

// Ids of a vocabulary are below this, which is far above any in use: it bounds what a damaged file
// can make us allocate.
inline constexpr std::int64_t kMaxIds = std::int64_t{1} << 24;

class Vocabulary {
 public:
  enum class Form {
    text,        // a token is its text
    byte_level,  // in GPT-2's alphabet: kept as bytes, where all its characters are in there
  };

  // `by_id`: empty where an id has no token. Of equal tokens the first keeps the text. Throws
  // UserError (class checkpoint, at `where`) for more than 4 GiB.
  Vocabulary(const std::vector<std::string_view>& by_id, Form form, const std::string& where);
  // An object of tokens and their ids. Errors: ids out of range, or given twice; empty tokens.
  static Vocabulary read(const JsonValue& json, Form form);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::size_t num_ids() const { return offsets_.size() - 1; }
  std::string_view token(TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return {text_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }
  std::optional<TokenId> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(*found);
  }

 private:
  // Ids are found by their texts, which the set does not repeat: so it stays in the caches.
  struct Texts {
    const char* text;
    const std::uint32_t* offsets;
    std::string_view of(TokenId id) const {
      return {text + offsets[id], offsets[id + 1] - offsets[id]};
    }
    static std::string_view of(std::string_view token) { return token; }
  };
  struct Hash : Texts {
    using is_transparent = void;
    std::size_t operator()(const auto& token) const { return hash(of(token)); }
  };
  struct Equal : Texts {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return of(a) == of(b); }
  };
  static std::size_t hash(std::string_view token);

  std::vector<char> text_;              // of all tokens, by id; moving keeps its address
  std::vector<std::uint32_t> offsets_;  // into text_; one more than ids
  boost::unordered_flat_set<TokenId, Hash, Equal> ids_;
};

// An id of a file, checked: from 0 to num_ids - 1.
TokenId read_id(const JsonValue& value, std::int64_t num_ids);

}  // namespace lamina::text
