#include "text/token_compression.h"

#include <string>
#include <unordered_map>

#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/normalizer.h"

namespace lamina::text {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::string_view kLoneBlank = "\xee\x80\x80";    // U+E000, which never occurs in text
constexpr std::string_view kBlanks = " \t\r\n";

std::string with_single_blanks(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool blank = kBlanks.find(c) != kBlanks.npos;
    if (!blank)
      out += c;
    else if (out.empty() || out.back() != ' ')
      out += ' ';
  }
  return out;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && is_space(utf8_decode(text))) text.remove_prefix(utf8_length(text));
  while (!text.empty() && is_space(last_character(text))) {
    std::size_t length = 1;  // back to the beginning of the last character
    while (utf8_continues(text[text.size() - length])) ++length;
    text.remove_suffix(length);
  }
  return text;
}

std::string normalized(std::string_view text) {
  using Step = Normalizer::Step;
  static const Normalizer forms({Step::nfkc, Step::nfd, Step::strip_accents, Step::lowercase});
  std::string out = with_single_blanks(forms.normalize(text));
  if (out == " ") out = kLoneBlank;
  out = stripped(out);
  for (std::size_t at; (at = out.find(kLoneBlank)) != out.npos;)
    out.replace(at, kLoneBlank.size(), 1, ' ');
  return out;
}

std::string key_of(const Tokenizer& tokenizer, TokenId id) {
  std::string text = tokenizer.decode({&id, 1});
  if (text.find(kReplacement) != text.npos) return tokenizer.spelling(id);
  std::string key = normalized(text);
  return key.empty() ? text : key;
}

}  // namespace

TokenCompression compress_tokens(const Tokenizer& tokenizer) {
  TokenCompression out;
  std::unordered_map<std::string, std::int32_t> numbers;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    auto next = static_cast<std::int32_t>(numbers.size());
    out.ids.push_back(numbers.try_emplace(key_of(tokenizer, id), next).first->second);
  }
  out.count = static_cast<std::int64_t>(numbers.size());
  if (std::optional<TokenId> pad = tokenizer.pad_id())
    out.pad = out.ids[static_cast<std::size_t>(*pad)];
  return out;
}

}  // namespace lamina::text
