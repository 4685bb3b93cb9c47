#include "chat/encode.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "text/hf/added_tokens.h"

namespace lamina::chat {
using text::AddedTokenMatcher;
using text::TokenId;
namespace {

// Line breaks and similar strings are added tokens of some models, and ordinary text of every
// template.
bool is_space(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
}

AddedTokenMatcher control_tokens(const text::Tokenizer& tokenizer,
                                 std::span<const std::string> own_text) {
  AddedTokenMatcher out;
  for (const text::AddedText& token : tokenizer.added_tokens()) {
    const bool is_written =
        std::any_of(own_text.begin(), own_text.end(),
                    [&](const std::string& part) { return part.find(token.text) != part.npos; });
    if (token.special || (is_written && !is_space(token.text)))
      out.add(token.text, {0, token.text, false, false, false, false, true});
  }
  return out;
}

struct Part {
  std::size_t begin, end;
  bool is_control;  // looks like a control token
};

std::vector<Part> split(std::string_view text, std::size_t begin, std::size_t end,
                        const AddedTokenMatcher& tokens) {
  std::vector<Part> out;
  tokens.split(text.substr(begin, end - begin), true,
               [&](std::string_view part, const text::AddedToken* token) {
                 const auto at = static_cast<std::size_t>(part.data() - text.data());
                 out.push_back({at, at + part.size(), token != nullptr});
               });
  return out;
}

// The text cut around control tokens in given text, and at the borders of given text inside control
// tokens.
std::vector<Part> parts_of(const jinja::Rendered& rendered, const AddedTokenMatcher& tokens) {
  std::vector<Part> controls;
  std::vector<std::size_t> borders;
  for (const jinja::RenderedSpan& given : rendered.given) {
    borders.insert(borders.end(), {given.begin, given.end});
    for (const Part& part : split(rendered.text, given.begin, given.end, tokens))
      if (part.is_control) controls.push_back(part);
  }
  std::size_t done = 0;
  std::vector<Part> out;
  const auto between = [&](std::size_t end) {
    while (done < end) {
      std::size_t cut = end;
      for (const Part& part : split(rendered.text, done, end, tokens)) {
        const auto border = std::upper_bound(borders.begin(), borders.end(), part.begin);
        if (!part.is_control || border == borders.end() || *border >= part.end) continue;
        cut = *border;
        break;
      }
      out.push_back({done, cut, false});
      done = cut;
    }
  };
  for (const Part& control : controls) {
    between(control.begin);
    out.push_back(control);
    done = control.end;
  }
  between(rendered.text.size());
  return out;
}

// Ids of text in the middle of a text, without the tokens that a tokenizer adds at the start. The
// text is encoded after a line break, whose ids are dropped, as in the reference.
std::vector<TokenId> encode_within(const text::Tokenizer& tokenizer, const std::string& part,
                                   const text::EncodeOptions& options,
                                   const std::vector<TokenId>& line_break) {
  std::vector<TokenId> ids = tokenizer.encode("\n" + part, options);
  if (ids.size() < line_break.size() ||
      !std::equal(line_break.begin(), line_break.end(), ids.begin()))
    return tokenizer.encode(part, options);
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(line_break.size()));
  return ids;
}

}  // namespace

std::vector<TokenId> encode(const text::Tokenizer& tokenizer, const jinja::Rendered& rendered) {
  const text::EncodeOptions ours = {.add_special = false, .parse_special = true};
  const text::EncodeOptions plain = {.add_special = false, .find_added = false};
  const AddedTokenMatcher tokens = control_tokens(tokenizer, rendered.own_text);
  const std::vector<TokenId> line_break = tokenizer.encode("\n", ours);
  std::vector<TokenId> out;
  for (const Part& part : parts_of(rendered, tokens)) {
    const std::string text = rendered.text.substr(part.begin, part.end - part.begin);
    const text::EncodeOptions& options = part.is_control ? plain : ours;
    const std::vector<TokenId> ids = part.begin == 0
                                         ? tokenizer.encode(text, options)
                                         : encode_within(tokenizer, text, options, line_break);
    if (part.is_control)
      if (const auto id = tokenizer.find_token(text);
          id && std::find(ids.begin(), ids.end(), *id) != ids.end())
        throw UserError(
            ExitCode::data,
            {"messages",
             fmt::format("contain '{}', a control token that this vocabulary cannot write "
                         "as ordinary text",
                         text),
             {"remove it from the message"}});
    out.insert(out.end(), ids.begin(), ids.end());
  }
  return out;
}

}  // namespace lamina::chat
