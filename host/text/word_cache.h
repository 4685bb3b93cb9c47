// Words and their ids.
#pragma once

#include <algorithm>
#include <bit>
#include <boost/container_hash/hash.hpp>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/model.h"

namespace lamina::text {

// Recently encoded words and their ids, so that frequent words are merged once. Direct-mapped:
// a new word takes the place of another.
class WordCache {
 public:
  // Sized for a text of that many bytes.
  explicit WordCache(std::size_t text_bytes)
      : entries_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 16, 16, 1 << 15))) {}

  void encode(const WordModel& model, std::string_view word, std::vector<TokenId>& ids) {
    TokenSink sink{ids};
    if (word.size() > kKeyBytes) return model.encode(word, sink);
    std::uint64_t key[3] = {};
    std::memcpy(key, word.data(), word.size());
    Entry& entry = entries_[boost::hash<std::string_view>()(word) & (entries_.size() - 1)];
    if (entry.num_bytes == word.size() && std::memcmp(entry.key, key, sizeof key) == 0) {
      ids.insert(ids.end(), entry.ids, entry.ids + entry.num_ids);
      return;
    }
    const std::size_t first = ids.size();
    model.encode(word, sink);
    const std::size_t num_ids = ids.size() - first;
    if (num_ids > kIds) return;
    std::memcpy(entry.key, key, sizeof key);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), entry.ids);
    entry.num_bytes = static_cast<std::uint8_t>(word.size());
    entry.num_ids = static_cast<std::uint8_t>(num_ids);
  }

 private:
  static constexpr std::size_t kKeyBytes = 24;
  static constexpr std::size_t kIds = 9;
  struct Entry {
    std::uint64_t key[3];
    TokenId ids[kIds];
    std::uint8_t num_bytes;
    std::uint8_t num_ids;
  };
  std::vector<Entry> entries_;
};

}  // namespace lamina::text
