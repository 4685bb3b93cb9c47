// Caches words and their ids.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/model.h"

namespace lamina::text {

// Recently encoded words and their ids, so that frequent words are merged once. Direct-mapped: a
// new word replaces another.
class WordCache {
 public:
  // This thread's cache, for a text of that many bytes: it keeps the words of earlier texts until
  // another model is used, so that many short texts take no longer than a long one.
  static WordCache& of_this_thread(const WordModel& model, std::size_t text_bytes) {
    thread_local WordCache cache;
    cache.expect(model, text_bytes);
    return cache;
  }

  void encode(const WordModel& model, std::string_view word, std::vector<TokenId>& ids) {
    TokenSink sink{ids};
    if (word.size() > kKeyBytes) return model.encode(word, sink);
    std::uint64_t key[3] = {};
    std::memcpy(key, word.data(), word.size());
    Entry& entry = entries_[hash_of(key) & (entries_.size() - 1)];
    if (entry.num_bytes == word.size() && entry.key[0] == key[0] && entry.key[1] == key[1] &&
        entry.key[2] == key[2]) {
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

  // Hashes whole numbers, as a hash of bytes would take longer than the rest. The upper bits of
  // each product depend on all bits of its factor.
  static std::size_t hash_of(const std::uint64_t (&key)[3]) {
    const std::uint64_t sum = key[0] * 0x9e3779b97f4a7c15u +
                              std::rotl(key[1], 21) * 0xbf58476d1ce4e5b9u +
                              std::rotl(key[2], 42) * 0x94d049bb133111ebu;
    return static_cast<std::size_t>(sum >> 32 ^ sum >> 47);
  }

  // Empties the cache for another model, and if it is small for the bytes read so far.
  void expect(const WordModel& model, std::size_t text_bytes) {
    if (model.serial() != serial_) {
      serial_ = model.serial();
      num_bytes_ = 0;
      entries_.clear();
    }
    num_bytes_ += text_bytes;
    const std::size_t wanted = std::bit_ceil(std::clamp<std::size_t>(num_bytes_ / 16, 16, 1 << 15));
    if (wanted > entries_.size()) entries_.assign(wanted, Entry{});
  }

  std::uint64_t serial_ = 0;
  std::size_t num_bytes_ = 0;  // of texts
  std::vector<Entry> entries_;
};

}  // namespace lamina::text
