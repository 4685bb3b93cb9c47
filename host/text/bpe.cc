#include "text/bpe.h"

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/byte_level.h"
#include "text/merge_list.h"

namespace lamina::text {
namespace {

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
  // With a token for unknown text, bytes may be missing.
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
  merges_ = read_merges(model.at("merges"), vocabulary_, form(symbols), prefix_);
  if (symbols == Symbols::bytes)
    index_bytes();
  else
    index_characters();
}

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, bool ignore_merges)
    : symbols_(Symbols::bytes),
      vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      ignore_merges_(ignore_merges) {
  index_bytes();
}

void Bpe::read_options(const JsonValue& model) {
  if (const JsonValue dropout = model.find("dropout");
      dropout && !dropout.is_null() && dropout.as_double() != 0)
    dropout.fail(
        fmt::format("is {}; lamina does not support dropout of merges", dropout.describe()),
        {"set it to null: it is only for training tokenizers"});
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
  // A merge with a token that is not text (a byte, the unknown token) has no characters to look up.
  bool text_only = !ignore_merges_ && prefix_.empty() && suffix_.empty();
  merges_.for_each([&](TokenId left, TokenId right) {
    for (const TokenId id : {left, right})
      text_only = text_only && id != unknown_ && !(byte_fallback_ && byte_of_token(token(id)));
  });
  words_have_parts_ = text_only;
}

void Bpe::byte_parts(std::string_view word, std::vector<MergePart>& parts) const {
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    if (byte_ids_[byte] < 0)
      user_error(ExitCode::data, "encoding text",
                 "the vocabulary has no token for the byte 0x{:02x}; remove such text, or use "
                 "a tokenizer with all 256 bytes",
                 byte);
    parts.push_back({byte_ids_[byte], static_cast<std::uint32_t>(i + 1)});
  }
}

bool Bpe::has_byte_tokens(std::string_view symbol) const {
  return std::ranges::all_of(
      symbol, [this](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; });
}

// As in the reference, a known character's bytes come before the unknown part that it ends, and a
// part begins at the end of the previous one in the list.
void Bpe::character_parts(std::string_view word, std::vector<MergePart>& parts) const {
  std::string spelled;
  std::uint32_t placed = 0;   // bytes covered by the parts so far
  std::uint32_t pending = 0;  // bytes of an unknown part in progress
  const auto add = [&](TokenId id, std::size_t num_bytes) {
    placed += static_cast<std::uint32_t>(num_bytes);
    parts.push_back({id, placed});
  };
  const auto flush = [&] {
    if (pending > 0) add(*unknown_, pending);
    pending = 0;
  };
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = character_bytes(word[at]);
    std::string_view symbol = word.substr(at, length);
    TokenId id = -1;
    if (prefix_.empty() && suffix_.empty()) {
      id = characters_->find(symbol, utf8_decode(symbol), vocabulary_);
    } else {
      spelled = fmt::format("{}{}{}", at > 0 ? prefix_ : "", symbol,
                            at + length == word.size() ? suffix_ : "");
      symbol = spelled;
      id = find(symbol).value_or(-1);
    }
    if (id >= 0) {
      flush();
      add(id, length);
    } else if (byte_fallback_ && has_byte_tokens(symbol)) {
      for (char c : symbol) add(byte_ids_[static_cast<unsigned char>(c)], 1);
    } else {
      if (!unknown_)
        user_error(ExitCode::data, "encoding text",
                   "the vocabulary has no token for '{}' and no unknown token; remove "
                   "such text, or use another tokenizer",
                   printable(word.substr(at, length)));
      if (!fuse_unknown_) flush();
      pending += static_cast<std::uint32_t>(length);
    }
    at += length;
  }
  flush();
}

std::size_t Bpe::independent_prefix(std::string_view word) const {
  return words_have_parts_ ? characters_->first_cut(word, vocabulary_) : word.size();
}

void Bpe::encode(std::string_view word, TokenSink& out) const {
  if (ignore_merges_)
    if (const auto id = find(word)) return out.add(*id, 0, word.size());
  check_length(word);
  thread_local std::vector<MergePart> parts;
  parts.clear();
  if (symbols_ == Symbols::bytes)
    byte_parts(word, parts);
  else
    character_parts(word, parts);
  merge_parts(parts, [this](const MergePart& left, const MergePart& right, std::uint32_t) {
    return merges_.find(left.id, right.id);
  });
  // Bytes of a prefix or suffix do not belong to the word.
  std::size_t begin = 0;
  for (const MergePart& part : parts) {
    begin = std::min(begin, word.size() - 1);
    out.add(part.id, begin, std::clamp<std::size_t>(part.end, begin + 1, word.size()));
    begin = part.end;
  }
  if (parts.capacity() > 4096) std::vector<MergePart>().swap(parts);
}

}  // namespace lamina::text
