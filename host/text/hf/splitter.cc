// Runs the steps of a splitter; splitter_steps.cc reads them.
#include "text/hf/splitter.h"

#include "core/utf8.h"
#include "text/characters.h"
#include "text/hf/byte_level.h"

namespace lamina::text {

Splitter::Session::Session(const Splitter& splitter) : splitter_(splitter) {
  for (const Regex& regex : splitter.regexes_) searchers_.emplace_back(regex);
}

void Splitter::Session::run(std::size_t index, const TextPiece& piece, const Word& word) {
  const std::string_view text = piece.text;
  if (text.empty()) return;
  if (index == splitter_.steps_.size()) return word(piece);
  const Step& step = splitter_.steps_[index];
  switch (step.kind) {
    case Step::Kind::prefix_space: {
      if (text.starts_with(' ')) return run(index + 1, piece, word);
      PieceWriter out(piece);
      out.insert(" ");
      out.keep_rest();
      return run(index + 1, out.output(), word);
    }
    case Step::Kind::spell_bytes: {
      PieceWriter out(piece);
      write_byte_level(out);
      return run(index + 1, out.output(), word);
    }
    case Step::Kind::metaspace: {
      PieceWriter out(piece);
      const bool wanted = step.scheme == PrependScheme::always ||
                          (step.scheme == PrependScheme::first && piece.start_bytes > 0);
      if (wanted && !text.starts_with(' ') && !text.starts_with(step.literal))
        out.insert(step.literal);
      for (std::size_t at; (at = out.rest().find(' ')) != std::string_view::npos;) {
        out.keep(at);
        out.replace(1, step.literal);
      }
      out.keep_rest();
      return run(index + 1, out.output(), word);
    }
    case Step::Kind::words:
      return split_by_class(index, piece, word);
    case Step::Kind::regex:
      if (step.behavior == Behavior::isolated) break;
      [[fallthrough]];
    default:
      return split_by_matches(index, piece, word);
  }
  // By far the most frequent step; needs no list of pieces.
  Regex::Searcher& searcher = searchers_[step.regex];
  Regex::Match match;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && searcher.find(text, at, match);) {
    run(index + 1, piece.part(done, match.begin), word);
    run(index + 1, piece.part(match.begin, match.end), word);
    done = at = match.end;
    if (match.begin == match.end)  // it splits, too
      at += at < text.size() ? character_bytes(text[at]) : 1;
  }
  run(index + 1, piece.part(done, text.size()), word);
}

void Splitter::Session::split_by_class(std::size_t index, const TextPiece& piece,
                                       const Word& word) {
  const auto kind = [&](std::size_t at) {
    const char32_t c = utf8_decode(piece.text.substr(at, 4));
    return is_word(c) ? 1 : is_space(c) ? 0 : 2;
  };
  for (std::size_t begin = 0; begin < piece.text.size();) {
    const int of_piece = kind(begin);
    std::size_t end = begin;
    while (end < piece.text.size() && kind(end) == of_piece)
      end += character_bytes(piece.text[end]);
    if (of_piece != 0) run(index + 1, piece.part(begin, end), word);
    begin = end;
  }
}

void Splitter::Session::split_by_matches(std::size_t index, const TextPiece& piece,
                                         const Word& word) {
  const Step& step = splitter_.steps_[index];
  const std::string_view text = piece.text;
  struct Part {
    std::size_t begin, end;
    bool match;
  };
  // Every byte is in one part: matches, and the text between them.
  std::vector<Part> parts;
  std::size_t done = 0;
  const auto add_match = [&](std::size_t begin, std::size_t end) {
    if (done < begin) parts.push_back({done, begin, step.invert});
    parts.push_back({begin, end, !step.invert});
    done = end;
  };
  if (step.kind == Step::Kind::regex) {
    Regex::Match match;
    for (std::size_t at = 0; at < text.size() && searchers_[step.regex].find(text, at, match);) {
      at = match.end;
      const bool is_empty = match.begin == match.end;
      if (is_empty) at += at < text.size() ? character_bytes(text[at]) : 1;
      // The reference's iterator skips an empty match at the end of another one.
      if (!is_empty || parts.empty() || match.begin != done) add_match(match.begin, match.end);
    }
  } else if (step.kind == Step::Kind::literal) {
    for (std::size_t at; (at = text.find(step.literal, done)) != text.npos;)
      add_match(at, at + step.literal.size());
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = character_bytes(text[at]);
      if (step.character(utf8_decode(text.substr(at)))) add_match(at, at + length);
      at += length;
    }
  }
  if (done < text.size()) parts.push_back({done, text.size(), step.invert});

  std::vector<Part> out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const bool after_match = i > 0 && parts[i - 1].match;
    bool joins = false;
    switch (step.behavior) {
      case Behavior::removed:
        if (part.match) continue;
        break;
      case Behavior::isolated:
        break;
      case Behavior::contiguous:
        joins = i > 0 && parts[i - 1].match == part.match;
        break;
      case Behavior::merged_with_previous:
        joins = part.match && i > 0 && !after_match;
        break;
      case Behavior::merged_with_next:
        // A match joins the following part, unless that is a match too.
        joins = after_match && !part.match;
        break;
    }
    if (joins)
      out.back().end = part.end;
    else
      out.push_back(part);
  }
  for (const Part& part : out) run(index + 1, piece.part(part.begin, part.end), word);
}

}  // namespace lamina::text
