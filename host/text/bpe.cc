#include "text/bpe.h"

#include "core/error.h"
#include "core/read_file.h"
#include "core/utf8.h"
#include "text/byte_level.h"
#include "text/characters.h"

namespace lamina::text {
namespace {

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

std::string text_option(const JsonValue& model, std::string_view key) {
  const JsonValue value = model.find(key);
  return value && !value.is_null() ? std::string(value.as_string()) : std::string();
}

bool flag(const JsonValue& model, std::string_view key) {
  const JsonValue value = model.find(key);
  return value && !value.is_null() && value.as_bool();
}

Vocabulary::Form form(Bpe::Symbols symbols) {
  return symbols == Bpe::Symbols::bytes ? Vocabulary::Form::byte_level : Vocabulary::Form::text;
}

}  // namespace

std::optional<unsigned char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return static_cast<unsigned char>(value);
}

std::string token_of_byte(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

bool Bpe::needs_characters(const JsonValue& model) {
  if (!text_option(model, "continuing_subword_prefix").empty() ||
      !text_option(model, "end_of_word_suffix").empty() || flag(model, "byte_fallback"))
    return true;
  if (text_option(model, "unk_token").empty()) return false;
  // With a token for what is unknown, bytes may be missing.
  std::size_t known = 0;
  for (const auto& [token, value] : model.at("vocab").members()) {
    char byte[2];
    known += token.size() <= 2 && byte_level_bytes(token, byte) == 1;
  }
  return known < 256;
}

Bpe::Bpe(const JsonValue& model, Symbols symbols)
    : symbols_(symbols), vocabulary_(Vocabulary::read(model.at("vocab"), form(symbols))) {
  read_options(model);
  read_merges(model.at("merges"));
  if (symbols == Symbols::bytes)
    index_bytes();
  else
    index_characters();
}

void Bpe::read_options(const JsonValue& model) {
  if (const JsonValue dropout = model.find("dropout");
      dropout && !dropout.is_null() && dropout.as_double() != 0)
    dropout.fail(fmt::format("is {}; lamina encodes a text in one way only", dropout.describe()),
                 {"set it to null: it is for training"});
  ignore_merges_ = flag(model, "ignore_merges");
  if (symbols_ == Symbols::bytes) return;
  byte_fallback_ = flag(model, "byte_fallback");
  fuse_unknown_ = flag(model, "fuse_unk");
  prefix_ = text_option(model, "continuing_subword_prefix");
  suffix_ = text_option(model, "end_of_word_suffix");
  if (const std::string unknown = text_option(model, "unk_token"); !unknown.empty()) {
    unknown_ = find(unknown);
    if (!unknown_)
      model.at("unk_token")
          .fail(fmt::format("is \"{}\", which is not in the vocabulary", printable(unknown, 40)));
  }
}

void Bpe::index_bytes() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = find({&c, 1}).value_or(-1);
  }
}

void Bpe::index_characters() {
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = find(token_of_byte(static_cast<unsigned char>(byte))).value_or(-1);
  characters_ = std::make_unique<SymbolTable>();
  for (std::size_t id = 0; id < num_ids(); ++id)
    characters_->add(token(static_cast<TokenId>(id)), static_cast<TokenId>(id));
  // A merge of a token that is not what the text says (a byte, the unknown one) has no characters
  // that could be looked up.
  bool text_only = !ignore_merges_ && prefix_.empty() && suffix_.empty();
  for (const auto& [pair, merge] : merges_)
    for (const auto id : {static_cast<TokenId>(pair >> 32), static_cast<TokenId>(pair)})
      text_only = text_only && id != unknown_ && !(byte_fallback_ && byte_of_token(token(id)));
  words_have_parts_ = text_only;
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
  const auto unknown = [&](std::string_view token) {
    where.fail(fmt::format("merges '{}', which is not in the vocabulary", printable(token, 60)),
               {"vocabulary and merges must belong together: take both from one file"});
  };
  char buffer[512];
  std::string large;
  char* both = buffer;
  if (left.size() + right.size() > sizeof buffer) {
    large.resize(left.size() + right.size());
    both = large.data();
  }
  const auto append = [&](std::string_view token, char* at) {
    if (symbols_ == Symbols::bytes) {
      const std::ptrdiff_t length = byte_level_bytes(token, at);
      if (length < 0) unknown(token);
      return static_cast<std::size_t>(length);
    }
    std::copy(token.begin(), token.end(), at);
    return token.size();
  };
  const std::size_t left_bytes = append(left, both);
  const std::size_t right_bytes = append(right, both + left_bytes);
  const auto left_id = find({both, left_bytes});
  if (!left_id) unknown(left);
  const auto right_id = find({both + left_bytes, right_bytes});
  if (!right_id) unknown(right);
  // A part inside a word is spelled with the prefix, the merged token is not.
  const std::size_t skipped = std::min(prefix_.size(), right_bytes);
  std::copy(both + left_bytes + skipped, both + left_bytes + right_bytes, both + left_bytes);
  const std::string_view merged(both, left_bytes + right_bytes - skipped);
  // Most vocabularies number tokens in the order of their merges.
  const bool guessed = static_cast<std::size_t>(guess) < num_ids() && token(guess) == merged;
  const auto result = guessed ? std::optional(guess) : find(merged);
  if (!result) unknown(std::string(left) + std::string(right.substr(skipped)));
  guess = *result + 1;

  // Of equal pairs the last counts, as in the reference.
  merges_[pair_of(*left_id, *right_id)] = {rank, *result};
}

FoundMerge Bpe::find_merge(TokenId left, TokenId right) const {
  const auto found = merges_.find(pair_of(left, right));
  if (found == merges_.end()) return {};
  return {found->second.rank, found->second.result};
}

void Bpe::byte_parts(std::string_view word, std::vector<MergePart>& parts) const {
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    if (byte_ids_[byte] < 0)
      user_error(ExitCode::data, "encoding text",
                 "the vocabulary has no token for the byte 0x{:02x}; leave out such text, or use "
                 "a tokenizer with all 256 bytes",
                 byte);
    parts.push_back({byte_ids_[byte], static_cast<std::uint32_t>(i + 1)});
  }
}

bool Bpe::add_byte_tokens(std::string_view symbol, std::size_t begin,
                          std::vector<MergePart>& parts) const {
  for (char c : symbol)
    if (byte_ids_[static_cast<unsigned char>(c)] < 0) return false;
  for (char c : symbol)
    parts.push_back(
        {byte_ids_[static_cast<unsigned char>(c)], static_cast<std::uint32_t>(++begin)});
  return true;
}

void Bpe::character_parts(std::string_view word, std::vector<MergePart>& parts) const {
  std::string spelled;
  std::optional<std::uint32_t> pending;  // the end of a part that nothing is known of
  const auto flush = [&] {
    if (pending) parts.push_back({*unknown_, *pending});
    pending.reset();
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = character_bytes(word[at]);
    std::string_view symbol = word.substr(at, length);
    const auto end = static_cast<std::uint32_t>(at + length);
    TokenId id = -1;
    if (prefix_.empty() && suffix_.empty()) {
      id = characters_->find(symbol, utf8_decode(symbol), vocabulary_);
    } else {
      spelled =
          fmt::format("{}{}{}", at > 0 ? prefix_ : "", symbol, end == word.size() ? suffix_ : "");
      symbol = spelled;
      id = find(symbol).value_or(-1);
    }
    if (id >= 0) {
      flush();
      parts.push_back({id, end});
    } else if (!byte_fallback_ || !add_byte_tokens(symbol, at, parts)) {
      if (!unknown_)
        user_error(ExitCode::data, "encoding text",
                   "the vocabulary has no token for '{}' and none for what is unknown; leave out "
                   "such text, or use another tokenizer",
                   printable(word.substr(at, length)));
      if (!fuse_unknown_) flush();
      pending = end;
    }
    at = end;
  }
  flush();
}

std::size_t Bpe::independent_prefix(std::string_view word) const {
  return words_have_parts_ ? characters_->first_cut(word, vocabulary_) : word.size();
}

void Bpe::encode(std::string_view word, TokenSink& out) const {
  if (ignore_merges_)
    if (const auto id = find(word)) return out.add(*id, 0, word.size());
  if (word.size() >= FoundMerge::kNone)
    user_error(ExitCode::data, "encoding text", "a word of {} bytes; at most 4 GiB are possible",
               word.size());
  thread_local std::vector<MergePart> parts;
  parts.clear();
  if (symbols_ == Symbols::bytes)
    byte_parts(word, parts);
  else
    character_parts(word, parts);
  merge_parts(parts, [this](const MergePart& left, const MergePart& right, std::uint32_t) {
    return find_merge(left.id, right.id);
  });
  std::size_t begin = 0;
  for (const MergePart& part : parts) {
    out.add(part.id, begin, part.end);
    begin = part.end;
  }
  if (parts.capacity() > 4096) std::vector<MergePart>().swap(parts);
}

}  // namespace lamina::text
