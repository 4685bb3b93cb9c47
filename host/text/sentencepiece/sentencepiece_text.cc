#include "text/sentencepiece/sentencepiece_text.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/characters.h"
#include "text/model.h"

namespace lamina::text {

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceFile& file,
                                                 const std::string& path)
    : suffix_(file.treat_whitespace_as_suffix),
      dummy_(file.add_dummy_prefix),
      prefixes_every_part_(file.prefixes_every_part),
      remove_extra_(file.remove_extra_whitespaces),
      escape_(file.escape_whitespaces) {
  if (!file.character_map.empty()) map_ = CharMap(file.character_map, path);
  if (file.splits_at_user_defined) return;
  std::vector<std::pair<std::string_view, TokenId>> user_defined;
  for (const auto& piece : file.pieces)
    if (piece.type == SentencePieceFile::Type::user_defined)
      user_defined.emplace_back(piece.text, static_cast<TokenId>(user_defined.size()));
  user_defined_ = TokenTrie(std::move(user_defined));
}

SentencePieceNormalizer::Step SentencePieceNormalizer::next(std::string_view text,
                                                            const Broken& broken) const {
  if (const std::size_t length = user_defined_.longest(text).first; length > 0)
    return {length, text.substr(0, length)};
  const std::size_t length = character_bytes(text[0]);
  if (std::ranges::binary_search(broken, text.data())) return {length, text.substr(0, length)};
  if (const CharMap::Match match = map_.longest(text); match.num_bytes > 0)
    return {match.num_bytes, match.becomes};
  return {length, text.substr(0, length)};
}

void SentencePieceNormalizer::write(PieceWriter& out, const Broken& broken, std::string_view space,
                                    bool prefixed) const {
  if (prefixed) out.insert(space);
  bool after_space = remove_extra_;
  while (!out.done()) {
    const Step step = next(out.rest(), broken);
    std::string_view text = step.becomes;
    while (after_space && text.starts_with(' ')) text.remove_prefix(1);
    if (!text.empty()) after_space = remove_extra_ && text.ends_with(' ');
    if (text.size() == step.num_bytes && text.data() == out.rest().data()) {
      // Then no user-defined piece with a space is in the result.
      for (std::size_t at; (at = text.find(' ')) != text.npos;) {
        out.keep(at);
        out.replace(1, space);
        text.remove_prefix(at + 1);
      }
      out.keep(text.size());
      continue;
    }
    for (; !text.empty();) {
      const std::size_t at = std::min(text.find(' '), text.size());
      if (at > 0) out.insert(text.substr(0, at));
      if (at == text.size()) break;
      out.insert(space);
      text.remove_prefix(at + 1);
    }
    out.drop(step.num_bytes);
  }
}

TextPiece SentencePieceNormalizer::normalize(const TextPiece& text, const Broken& broken,
                                             std::deque<PieceWriter>& owner) const {
  const std::string_view space = escape_ ? kSpaceSymbol : " ";
  std::size_t begin = 0;
  if (remove_extra_)
    while (begin < text.text.size()) {
      const Step step = next(text.text.substr(begin), broken);
      if (step.becomes != " ") break;
      begin += step.num_bytes;
    }
  if (begin == text.text.size()) return text.part(begin, begin);
  TextPiece out = text.part(begin, text.text.size());
  const bool prefixed = dummy_ && !suffix_ && (prefixes_every_part_ || text.start_bytes > 0);
  write(owner.emplace_back(out), broken, space, prefixed);
  out = owner.back().output();
  if (remove_extra_)
    while (out.text.ends_with(space)) out = out.part(0, out.text.size() - space.size());
  if (!dummy_ || !suffix_) return out;
  if (out.text.empty()) {  // nothing is left: the suffix comes from the last character
    const TextPiece dropped = text.part(begin, text.text.size());
    PieceWriter& only_suffix = owner.emplace_back(dropped);
    only_suffix.replace_as_last(dropped.text.size(), space);
    return only_suffix.output();
  }
  PieceWriter& with_suffix = owner.emplace_back(out);
  with_suffix.keep_rest();
  with_suffix.insert(space);
  return with_suffix.output();
}

SentencePieceText::SentencePieceText(const SentencePieceFile& file)
    : unknown_surface_(file.unknown_surface),
      strips_(file.add_dummy_prefix || file.remove_extra_whitespaces),
      strips_all_(file.remove_extra_whitespaces) {}

// Every byte that does not begin a character becomes U+FFFD.
std::string SentencePieceText::bytes_of_run(bool more_may_come) {
  std::string out;
  std::string_view rest = bytes_;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.cut && more_may_come) break;
    if (step.valid)
      out += rest.substr(0, step.num_bytes);
    else
      out += "\xef\xbf\xbd";
    rest.remove_prefix(step.valid ? step.num_bytes : 1);
  }
  bytes_.erase(0, bytes_.size() - rest.size());
  any_text_ = any_text_ || !out.empty();
  return out;
}

std::string SentencePieceText::push(std::string_view piece, SentencePieceFile::Type type) {
  using Type = SentencePieceFile::Type;
  if (const auto byte = byte_of_token(piece); byte && type == Type::byte) {
    bytes_ += static_cast<char>(*byte);
    return bytes_of_run(true);
  }
  std::string out = bytes_of_run(false);
  // Only the first space of the text was added, if any.
  if (seen_space_ || any_text_) at_begin_ = false;
  seen_space_ = false;
  if (type == Type::control) return out;
  if (type == Type::unknown) {
    out += unknown_surface_;
  } else {
    if (at_begin_ && strips_ && piece.starts_with(kSpaceSymbol)) {
      piece.remove_prefix(kSpaceSymbol.size());
      seen_space_ = !strips_all_;
    }
    for (std::size_t at; (at = piece.find(kSpaceSymbol)) != piece.npos;) {
      out += piece.substr(0, at);
      out += ' ';
      piece.remove_prefix(at + kSpaceSymbol.size());
    }
    out += piece;
  }
  any_text_ = any_text_ || !out.empty();
  return out;
}

std::string SentencePieceText::finish() { return bytes_of_run(false); }

}  // namespace lamina::text
