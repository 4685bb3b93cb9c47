// Byte-pair encoding (Sennrich et al. 2016) over bytes: the vocabulary, the merges, and the
// encoding of one word.
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/tokenizer.h"

namespace lamina::text {

// The bytes of a token of a byte-level vocabulary: each character is one byte (GPT-2's
// alphabet, where "G with dot above" is a space); nothing if it holds other characters.
std::optional<std::string> byte_level_bytes(std::string_view token);
// The inverse: the characters that encode `bytes`.
std::string byte_level_spelling(std::string_view bytes);

// Ids of a vocabulary are below this, which is far above any in use: it bounds what a damaged file
// can make us allocate.
inline constexpr std::int64_t kMaxIds = std::int64_t{1} << 24;

class Bpe {
 public:
  // The value of the key "model". Errors (class checkpoint): another type of model, a feature that
  // lamina lacks, bad ids, merges of tokens that do not exist.
  explicit Bpe(const JsonValue& model);
  Bpe(const Bpe&) = delete;
  Bpe& operator=(const Bpe&) = delete;

  // One more than the largest id.
  std::size_t num_ids() const { return offsets_.size() - 1; }
  // Empty for an id without a token. A token that is not in the byte alphabet is its own text.
  std::string_view bytes(TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  // The id of the token with exactly these bytes.
  std::optional<TokenId> find(std::string_view bytes) const;

  // Appends the ids of one word: from single bytes, the pair with the first merge in the list is
  // merged, leftmost first, until none is left. A UserError (class data) for a byte that the
  // vocabulary lacks; those in use have all 256.
  void encode_word(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  struct Merge {
    std::uint32_t rank = 0;  // lower merges first
    TokenId result = 0;
  };
  using Merges = boost::unordered_flat_map<std::uint64_t, Merge>;  // by left and right id
  using FoundMerge = const Merges::value_type*;                    // null where there is none

  void read_vocabulary(const JsonValue& vocabulary);
  void read_merges(const JsonValue& merges);
  void add_merge(const JsonValue& where, std::string_view left, std::string_view right,
                 std::uint32_t rank, TokenId& guess);
  FoundMerge find_merge(TokenId left, TokenId right) const;
  void check_bytes(std::string_view word) const;
  void merge_short(std::string_view word, std::vector<TokenId>& ids) const;
  void merge_long(std::string_view word, std::vector<TokenId>& ids) const;

  std::string text_;                                          // of all tokens, by id
  std::vector<std::uint32_t> offsets_;                        // into text_; one more than ids
  boost::unordered_flat_map<std::string_view, TokenId> ids_;  // the keys are in text_
  Merges merges_;
  std::array<TokenId, 256> byte_ids_{};  // -1 = none
  bool has_all_bytes_ = true;
  bool ignore_merges_ = false;  // a word that is a token is that token, whatever the merges say
};

}  // namespace lamina::text
