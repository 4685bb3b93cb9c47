#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <queue>

#include "core/error.h"
#include "core/read_file.h"
#include "core/utf8.h"

namespace lamina::text {
namespace {

// Above this a word is merged with a heap instead of by scanning.
constexpr std::size_t kShortWordBytes = 48;

// Code point of GPT-2's alphabet -> byte, or -1. Printable bytes stand for themselves, the others
// follow from U+0100 in their own order.
constexpr std::array<std::int16_t, 0x144> make_alphabet() {
  std::array<std::int16_t, 0x144> byte_of{};
  for (auto& b : byte_of) b = -1;
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    byte_of[printable ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return byte_of;
}
constexpr std::array<std::int16_t, 0x144> kByteOf = make_alphabet();

// Writes the bytes of `token` to `out`, which has room for token.size(), and returns how many; -1
// if a character is not in the alphabet.
std::ptrdiff_t to_bytes(std::string_view token, char* out) {
  char* at = out;
  for (std::size_t i = 0; i < token.size();) {
    unsigned code = static_cast<unsigned char>(token[i++]);
    if (code >= 0x80) {
      // The alphabet ends at U+0143: two bytes at most. JSON text is valid UTF-8.
      if ((code & 0xe0) != 0xc0 || i == token.size()) return -1;
      code = (code & 0x1f) << 6 | (static_cast<unsigned char>(token[i++]) & 0x3f);
    }
    if (code >= kByteOf.size() || kByteOf[code] < 0) return -1;
    *at++ = static_cast<char>(kByteOf[code]);
  }
  return at - out;
}

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Options that change the result and that no byte-level vocabulary in use sets.
void refuse_if_set(const JsonValue& model, std::string_view key) {
  const JsonValue value = model.find(key);
  const bool unset = !value || value.is_null() ||
                     (value.is_string() && value.as_string().empty()) ||
                     (value.is_number() && value.as_double() == 0);
  if (!unset)
    value.fail(fmt::format("is {}; lamina has no BPE with this option", value.describe()));
}

}  // namespace

std::optional<std::string> byte_level_bytes(std::string_view token) {
  std::string bytes(token.size(), '\0');
  const std::ptrdiff_t length = to_bytes(token, bytes.data());
  if (length < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(length));
  return bytes;
}

std::string byte_level_spelling(std::string_view bytes) {
  static const auto character_of = [] {
    std::array<char32_t, 256> table{};
    for (std::size_t code = 0; code < kByteOf.size(); ++code)
      if (kByteOf[code] >= 0)
        table[static_cast<std::size_t>(kByteOf[code])] = static_cast<char32_t>(code);
    return table;
  }();
  std::string out;
  for (char byte : bytes) utf8_append(out, character_of[static_cast<unsigned char>(byte)]);
  return out;
}

Bpe::Bpe(const JsonValue& model) {
  if (const JsonValue type = model.find("type"); type && type.as_string() != "BPE")
    type.fail(fmt::format("is {}, a model that lamina does not have", type.describe()),
              {"it has byte-level BPE"});
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse_if_set(model, key);
  if (const JsonValue ignore = model.find("ignore_merges"); ignore && !ignore.is_null())
    ignore_merges_ = ignore.as_bool();
  read_vocabulary(model.at("vocab"));
  read_merges(model.at("merges"));
}

void Bpe::read_vocabulary(const JsonValue& vocabulary) {
  std::vector<std::string_view> tokens;
  tokens.reserve(vocabulary.size());
  std::size_t text_bytes = 0;
  for (const auto& [token, value] : vocabulary.members()) {
    const std::int64_t id = value.as_int64();
    if (id < 0 || id >= kMaxIds)
      value.fail(fmt::format("must be an id from 0 to {}, got {}", kMaxIds - 1, id));
    if (token.empty()) value.fail("is an empty token; tokens have at least one byte");
    if (tokens.size() <= static_cast<std::size_t>(id))
      tokens.resize(static_cast<std::size_t>(id) + 1);
    std::string_view& place = tokens[static_cast<std::size_t>(id)];
    if (!place.empty())
      value.fail(
          fmt::format("has id {}, as has '{}'; each token has its own", id, printable(place, 40)));
    place = token;
    text_bytes += token.size();
  }
  if (text_bytes > std::numeric_limits<std::uint32_t>::max())
    vocabulary.fail("holds more than 4 GiB of text");

  text_.resize(text_bytes);
  offsets_.resize(tokens.size() + 1);
  ids_.reserve(vocabulary.size());
  std::size_t at = 0;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    offsets_[id] = static_cast<std::uint32_t>(at);
    if (tokens[id].empty()) continue;
    const std::ptrdiff_t length = to_bytes(tokens[id], text_.data() + at);
    if (length < 0) {
      std::memcpy(text_.data() + at, tokens[id].data(), tokens[id].size());
      at += tokens[id].size();
      continue;
    }
    const std::string_view bytes(text_.data() + at, static_cast<std::size_t>(length));
    at += bytes.size();
    ids_.try_emplace(bytes, static_cast<TokenId>(id));
  }
  offsets_[tokens.size()] = static_cast<std::uint32_t>(at);
  text_.resize(at);

  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const auto id = find({&c, 1});
    byte_ids_[static_cast<std::size_t>(byte)] = id.value_or(-1);
    has_all_bytes_ = has_all_bytes_ && id;
  }
}

std::optional<TokenId> Bpe::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void Bpe::read_merges(const JsonValue& merges) {
  merges_.reserve(merges.size());
  std::uint32_t rank = 0;
  TokenId guess = 256;
  for (JsonValue merge : merges.elements()) {
    if (merge.is_array()) {
      if (merge.size() != 2)
        merge.fail(fmt::format("must be a pair of tokens, got {}", merge.describe()));
      add_merge(merge, merge.element(0).as_string(), merge.element(1).as_string(), rank++, guess);
      continue;
    }
    const std::string_view both = merge.as_string();
    if (rank == 0 && both.starts_with("#version")) continue;
    const auto space = both.find(' ');
    if (space == both.npos || both.find(' ', space + 1) != both.npos)
      merge.fail(fmt::format("must be two tokens with a space between, got {}", merge.describe()));
    add_merge(merge, both.substr(0, space), both.substr(space + 1), rank++, guess);
  }
}

void Bpe::add_merge(const JsonValue& where, std::string_view left, std::string_view right,
                    std::uint32_t rank, TokenId& guess) {
  char buffer[512];
  std::string large;
  char* both = buffer;
  if (left.size() + right.size() > sizeof buffer) {
    large.resize(left.size() + right.size());
    both = large.data();
  }
  const auto unknown = [&](std::string_view token) {
    where.fail(fmt::format("merges '{}', which is not in the vocabulary", printable(token, 60)),
               {"vocabulary and merges must belong together: take both from one file"});
  };
  const std::ptrdiff_t left_bytes = to_bytes(left, both);
  if (left_bytes < 0) unknown(left);
  const std::ptrdiff_t right_bytes = to_bytes(right, both + left_bytes);
  if (right_bytes < 0) unknown(right);
  const std::string_view merged(both, static_cast<std::size_t>(left_bytes + right_bytes));
  const auto left_id = find(merged.substr(0, static_cast<std::size_t>(left_bytes)));
  if (!left_id) unknown(left);
  const auto right_id = find(merged.substr(static_cast<std::size_t>(left_bytes)));
  if (!right_id) unknown(right);
  // Most vocabularies number tokens in the order of their merges.
  const bool guessed = static_cast<std::size_t>(guess) < num_ids() && bytes(guess) == merged;
  const auto result = guessed ? std::optional(guess) : find(merged);
  if (!result) unknown(std::string(left) + std::string(right));
  guess = *result + 1;

  // Of equal pairs the last counts, as in the reference.
  merges_[pair_of(*left_id, *right_id)] = {rank, *result};
}

Bpe::FoundMerge Bpe::find_merge(TokenId left, TokenId right) const {
  const auto found = merges_.find(pair_of(left, right));
  return found == merges_.end() ? nullptr : &*found;
}

void Bpe::check_bytes(std::string_view word) const {
  for (char c : word)
    if (byte_ids_[static_cast<unsigned char>(c)] < 0)
      user_error(ExitCode::data, "encoding text",
                 "the vocabulary has no token for the byte 0x{:02x}; leave out such text, or use "
                 "a tokenizer with all 256 bytes",
                 static_cast<unsigned char>(c));
}

void Bpe::encode_word(std::string_view word, std::vector<TokenId>& ids) const {
  if (!has_all_bytes_) check_bytes(word);
  if (word.size() == 1) return ids.push_back(byte_ids_[static_cast<unsigned char>(word[0])]);
  if (ignore_merges_)
    if (const auto id = find(word)) return ids.push_back(*id);
  if (word.size() <= kShortWordBytes)
    merge_short(word, ids);
  else
    merge_long(word, ids);
}

void Bpe::merge_short(std::string_view word, std::vector<TokenId>& ids) const {
  TokenId parts[kShortWordBytes];
  FoundMerge merges[kShortWordBytes];  // of part i with part i + 1
  std::size_t n = word.size();
  for (std::size_t i = 0; i < n; ++i) parts[i] = byte_ids_[static_cast<unsigned char>(word[i])];
  for (std::size_t i = 0; i + 1 < n; ++i) merges[i] = find_merge(parts[i], parts[i + 1]);
  for (;;) {
    std::size_t best = n;
    std::uint32_t best_rank = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t i = 0; i + 1 < n; ++i)
      if (merges[i] && merges[i]->second.rank < best_rank) {
        best = i;
        best_rank = merges[i]->second.rank;
      }
    if (best == n) break;
    parts[best] = merges[best]->second.result;
    --n;
    for (std::size_t i = best + 1; i < n; ++i) parts[i] = parts[i + 1];
    for (std::size_t i = best + 1; i + 1 < n; ++i) merges[i] = merges[i + 1];
    if (best + 1 < n) merges[best] = find_merge(parts[best], parts[best + 1]);
    if (best > 0) merges[best - 1] = find_merge(parts[best - 1], parts[best]);
  }
  ids.insert(ids.end(), parts, parts + n);
}

void Bpe::merge_long(std::string_view word, std::vector<TokenId>& ids) const {
  struct Part {
    TokenId id;  // -1: merged into the part before it
    std::size_t before, after;
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    FoundMerge merge;
    bool operator<(const Candidate& other) const {  // the queue gives the largest first
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const std::size_t n = word.size();
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<Part> parts(n);
  for (std::size_t i = 0; i < n; ++i)
    parts[i] = {byte_ids_[static_cast<unsigned char>(word[i])], i == 0 ? kNone : i - 1,
                i + 1 == n ? kNone : i + 1};
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::size_t i) {
    if (i == kNone || parts[i].after == kNone) return;
    if (const FoundMerge merge = find_merge(parts[i].id, parts[parts[i].after].id))
      queue.push({merge->second.rank, i, merge});
  };
  for (std::size_t i = 0; i + 1 < n; ++i) consider(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Part& left = parts[top.at];
    if (left.id < 0 || left.after == kNone) continue;
    Part& right = parts[left.after];
    if (pair_of(left.id, right.id) != top.merge->first) continue;  // one of them merged meanwhile
    left.id = top.merge->second.result;
    right.id = -1;
    left.after = right.after;
    if (left.after != kNone) parts[left.after].before = top.at;
    consider(left.before);
    consider(top.at);
  }
  for (const Part& part : parts)
    if (part.id >= 0) ids.push_back(part.id);
}

}  // namespace lamina::text
