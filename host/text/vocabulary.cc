#include "text/vocabulary.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/printable.h"
#include "text/hf/byte_level.h"

namespace lamina::text {

TokenId read_id(const JsonValue& value, std::int64_t num_ids) {
  const std::int64_t id = value.as_int64();
  if (id < 0 || id >= num_ids)
    value.fail(fmt::format("must be an id from 0 to {}, got {}", num_ids - 1, id));
  return static_cast<TokenId>(id);
}

Vocabulary Vocabulary::read(const JsonValue& json, Form form) {
  LargeVector<std::string_view> tokens;
  tokens.reserve(json.size());
  for (const auto& [token, value] : json.members()) {
    const auto id = static_cast<std::size_t>(read_id(value, kMaxIds));
    if (token.empty()) value.fail("is an empty token; tokens have at least one byte");
    if (tokens.size() <= id) tokens.resize(id + 1);
    if (!tokens[id].empty())
      value.fail(fmt::format("has id {}, which also belongs to '{}'; ids must differ", id,
                             printable(tokens[id], 40)));
    tokens[id] = token;
  }
  return Vocabulary(tokens, form, json.where());
}

std::uint64_t Vocabulary::hash(std::string_view token) {
  return XXH3_64bits(token.data(), token.size());
}

Vocabulary::Vocabulary(std::span<const std::string_view> by_id, Form form, const std::string& where,
                       Equal equal)
    : ids_(by_id.size()) {
  std::size_t text_bytes = 0;
  for (std::string_view token : by_id) text_bytes += token.size();
  if (text_bytes > std::numeric_limits<std::uint32_t>::max())
    user_error(ExitCode::checkpoint, where, "the vocabulary has more than 4 GiB of text");
  text_.resize(text_bytes);
  offsets_.resize(by_id.size() + 1);
  std::size_t at = 0;
  const auto add_text = [&](std::string_view token, TokenId id) {
    std::ptrdiff_t length =
        form == Form::byte_level ? byte_level_bytes(token, text_.data() + at) : -1;
    const bool as_text = length < 0;
    if (as_text) {
      std::memcpy(text_.data() + at, token.data(), token.size());
      length = static_cast<std::ptrdiff_t>(token.size());
    }
    at += static_cast<std::size_t>(length);
    offsets_[static_cast<std::size_t>(id) + 1] = static_cast<std::uint32_t>(at);
    // Encoding bytes never produces characters outside the alphabet.
    return !as_text || form == Form::text;
  };
  const auto add_id = [&](std::uint64_t hash_of_added, TokenId added) {
    if (ids_.insert(hash_of_added, added, [&](TokenId id) { return token(id) == token(added); }) >=
        0)
      has_equal_tokens_ = true;
  };
  // In blocks, so that slots are prefetched before use.
  constexpr std::size_t kBlock = 64;
  TokenId found[kBlock];
  std::uint64_t hashes[kBlock];
  std::vector<TokenId> backwards;  // if lookups must find the last of equal tokens
  for (std::size_t first = 0; first < by_id.size(); first += kBlock) {
    std::size_t num_found = 0;
    for (std::size_t i = first; i < std::min(first + kBlock, by_id.size()); ++i) {
      const auto id = static_cast<TokenId>(i);
      offsets_[i + 1] = offsets_[i];
      if (by_id[i].empty() || !add_text(by_id[i], id)) continue;
      if (equal == Equal::last) {
        backwards.push_back(id);
        continue;
      }
      hashes[num_found] = hash(token(id));
      ids_.prefetch(hashes[num_found]);
      found[num_found++] = id;
    }
    for (std::size_t i = 0; i < num_found; ++i) add_id(hashes[i], found[i]);
  }
  for (std::size_t i = backwards.size(); i-- > 0;) add_id(hash(token(backwards[i])), backwards[i]);
}

}  // namespace lamina::text
