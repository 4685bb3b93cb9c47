#include "jinja/parse/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"
#include "jinja/values/words.h"

namespace lamina::jinja {

Text normalize_newlines(TextView source) {
  Text out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += U'\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

LineColumn line_column(TextView source, Position at) {
  const TextView before = source.substr(0, std::min<std::size_t>(at, source.size()));
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), U'\n'));
  const std::size_t last = before.rfind(U'\n');
  return {line + 1, before.size() - (last == TextView::npos ? 0 : last + 1) + 1};
}

namespace {

class Lexer {
 public:
  explicit Lexer(TextView source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenType::end, at_);
    return std::move(tokens_);
  }

 private:
  enum class Tag { none, block, variable, comment };

  bool looking_at(std::u32string_view text, std::size_t at) const {
    return source_.substr(at, text.size()) == text;
  }
  Tag tag_at(std::size_t at) const {
    if (looking_at(U"{%", at)) return Tag::block;
    if (looking_at(U"{{", at)) return Tag::variable;
    return looking_at(U"{#", at) ? Tag::comment : Tag::none;
  }
  void skip_space() {
    while (at_ < source_.size() && is_space(source_[at_])) ++at_;
  }
  // The sign after the beginning of a tag: '-', '+' or 0.
  Char sign_at(std::size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : 0;
  }
  void add(TokenType type, std::size_t at, Text text = {}, std::string word = {}) {
    tokens_.push_back({type, static_cast<Position>(at), std::move(text), std::move(word)});
  }
  [[noreturn]] static void refuse(std::size_t at, std::string message) {
    throw SyntaxFailure{static_cast<Position>(at), std::move(message)};
  }

  // Adds the text from `begin` to a tag with that sign, without the white space that the tag
  // removes.
  void add_data(std::size_t begin, std::size_t end, Char sign, bool takes_indent) {
    TextView text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = strip(text, Side::right);
    } else if (sign != '+' && takes_indent) {
      const std::size_t newline = text.rfind(U'\n');
      const std::size_t line = newline == TextView::npos ? 0 : newline + 1;
      const bool begins_line =
          newline != TextView::npos || begin == 0 || source_[begin - 1] == '\n';
      if (begins_line &&
          std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line), text.end(), is_space))
        text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenType::data, begin, Text(text));
  }

  void read_data() {
    const std::size_t begin = at_;
    std::size_t tag = begin;
    while (tag < source_.size() && tag_at(tag) == Tag::none) ++tag;
    if (tag == source_.size()) {
      add_data(begin, tag, '+', false);
      at_ = tag;
      return;
    }
    const Tag kind = tag_at(tag);
    const Char sign = sign_at(tag + 2);
    add_data(begin, tag, sign, kind != Tag::variable);
    at_ = tag + 2 + (sign ? 1 : 0);
    if (kind == Tag::comment) return skip_comment(tag);
    if (kind == Tag::block && begin_raw()) return read_raw(tag);
    read_tag(tag, kind);
  }

  // Skips "{# ... #}" and the white space that its end removes.
  void skip_comment(std::size_t tag) {
    const std::size_t end = source_.find(U"#}", at_);
    if (end == TextView::npos) refuse(tag, "a comment begins here and has no end; expected '#}'");
    const Char sign = end > at_ ? sign_at(end - 1) : 0;
    at_ = end + 2;
    finish_block(sign);
  }

  // Skips what the end of a block or comment removes: all white space, one newline, or nothing.
  void finish_block(Char sign) {
    if (sign == '-')
      skip_space();
    else if (sign != '+' && at_ < source_.size() && source_[at_] == '\n')
      ++at_;
  }

  // If a tag's text is "raw", moves behind it.
  bool begin_raw() {
    const std::size_t inside = at_;
    skip_space();
    if (looking_at(U"raw", at_)) {
      at_ += 3;
      skip_space();
      const Char sign = sign_at(at_) == '-' ? '-' : 0;
      if (looking_at(U"%}", at_ + (sign ? 1 : 0))) {
        at_ += sign ? 3 : 2;
        if (sign) skip_space();
        return true;
      }
    }
    at_ = inside;
    return false;
  }

  void read_raw(std::size_t tag) {
    const std::size_t begin = at_;
    for (std::size_t end = begin; (end = source_.find(U"{%", end)) != TextView::npos; ++end) {
      const Char sign = sign_at(end + 2);
      at_ = end + 2 + (sign ? 1 : 0);
      skip_space();
      if (!looking_at(U"endraw", at_)) continue;
      at_ += 6;
      skip_space();
      const Char closing = sign_at(at_);
      if (!looking_at(U"%}", at_ + (closing ? 1 : 0))) continue;
      at_ += closing ? 3 : 2;
      add_data(begin, end, sign, true);
      return finish_block(closing);
    }
    refuse(tag, "'raw' begins here and has no end; expected '{% endraw %}'");
  }

  // Reads the words of a tag, up to its end.
  void read_tag(std::size_t tag, Tag kind) {
    const bool block = kind == Tag::block;
    const std::u32string_view closing = block ? U"%}" : U"}}";
    add(block ? TokenType::block_begin : TokenType::variable_begin, tag);
    std::string open;  // brackets
    for (;;) {
      skip_space();
      if (at_ >= source_.size())
        refuse(tag,
               fmt::format("a tag begins here and has no end; expected '{}'", to_utf8(closing)));
      const Char sign = sign_at(at_);
      if (open.empty() && (!sign || block || sign == '-') &&
          looking_at(closing, at_ + (sign ? 1 : 0))) {
        add(block ? TokenType::block_end : TokenType::variable_end, at_);
        at_ += sign ? 3 : 2;
        if (block)
          finish_block(sign);
        else if (sign == '-')
          skip_space();
        return;
      }
      read_word(open);
    }
  }

  void read_word(std::string& open) {
    Word word = read_token_word(source_, at_);
    if (word.length == 0)
      refuse(at_,
             fmt::format("the character '{}' cannot be here", to_utf8(source_.substr(at_, 1))));
    if (word.type == TokenType::op) balance(open, word.word[0]);
    add(word.type, at_, std::move(word.text), std::move(word.word));
    at_ += word.length;
  }

  void balance(std::string& open, char op) const {
    if (op == '(' || op == '[' || op == '{') {
      open += op;
    } else if (op == ')' || op == ']' || op == '}') {
      const char expected = op == ')' ? '(' : op == ']' ? '[' : '{';
      if (open.empty() || open.back() != expected)
        refuse(at_, fmt::format("'{}' has no matching opening bracket", op));
      open.pop_back();
    }
  }

  TextView source_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(TextView source) { return Lexer(source).run(); }

}  // namespace lamina::jinja
