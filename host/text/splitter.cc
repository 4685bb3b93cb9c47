#include "text/splitter.h"

#include "core/error.h"
#include "core/utf8.h"
#include "text/characters.h"

namespace lamina::text {
namespace {

// ByteLevel's own pattern, that of GPT-2 (Radford et al. 2019).
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr std::string_view kHave = "it has ByteLevel, Split, Digits and Sequence";

// Sequences flattened.
void flatten(const JsonValue& json, std::vector<JsonValue>& steps) {
  if (json.at("type").as_string() != "Sequence") return steps.push_back(json);
  for (JsonValue step : json.at("pretokenizers").elements()) flatten(step, steps);
}

}  // namespace

Splitter::Splitter(const JsonValue& json, const std::string& file) : file_(file) {
  if (!json || json.is_null())
    throw UserError(ExitCode::checkpoint,
                    {file,
                     "has no pre_tokenizer; lamina reads byte-level tokenizers, whose "
                     "pre_tokenizer ends with ByteLevel",
                     {"use a model with a byte-level tokenizer, or give token ids"}});
  std::vector<JsonValue> steps;
  flatten(json, steps);
  if (steps.empty()) json.fail("is an empty sequence; it must end with ByteLevel");
  for (std::size_t i = 0; i < steps.size(); ++i) add(steps[i], i + 1 == steps.size());
}

void Splitter::add(const JsonValue& json, bool last) {
  const JsonValue type = json.at("type");
  if (last && type.as_string() != "ByteLevel") {
    const bool known = type.as_string() == "Split" || type.as_string() == "Digits";
    type.fail(
        known ? fmt::format("is {}, but the last step must be ByteLevel: lamina reads "
                            "byte-level tokenizers only",
                            type.describe())
              : fmt::format("is {}, a pre_tokenizer that lamina does not have", type.describe()),
        {std::string(kHave)});
  }
  if (type.as_string() == "ByteLevel") {
    if (!last) type.fail("is \"ByteLevel\" before the end; lamina has it as the last step only");
    if (json.at("add_prefix_space").as_bool()) steps_.push_back({Kind::prefix_space});
    const JsonValue use_regex = json.find("use_regex");
    if (!use_regex || use_regex.as_bool())
      add_regex(kByteLevelPattern, file_ + ": the pattern of ByteLevel");
  } else if (type.as_string() == "Digits") {
    const bool individual = json.at("individual_digits").as_bool();
    steps_.push_back({Kind::digits, individual ? Behavior::isolated : Behavior::contiguous});
  } else if (type.as_string() == "Split") {
    add_split(json);
  } else {
    type.fail(fmt::format("is {}, a pre_tokenizer that lamina does not have", type.describe()),
              {std::string(kHave)});
  }
}

void Splitter::add_regex(std::string_view pattern, std::string where) {
  steps_.push_back({Kind::regex, Behavior::isolated, false, regexes_.size()});
  regexes_.emplace_back(pattern, std::move(where));
}

void Splitter::add_split(const JsonValue& json) {
  const JsonValue pattern = json.at("pattern");
  if (const JsonValue regex = pattern.find("Regex")) {
    add_regex(regex.as_string(), fmt::format("{}: '{}'", regex.where(), regex.path()));
  } else {
    const JsonValue literal = pattern.at("String");
    if (literal.as_string().empty()) literal.fail("must not be empty");
    steps_.push_back({.kind = Kind::literal, .literal = std::string(literal.as_string())});
  }
  Step& step = steps_.back();
  step.invert = json.at("invert").as_bool();
  const JsonValue behavior = json.at("behavior");
  static constexpr struct {
    std::string_view name;
    Behavior behavior;
  } kBehaviors[] = {{"Removed", Behavior::removed},
                    {"Isolated", Behavior::isolated},
                    {"Contiguous", Behavior::contiguous},
                    {"MergedWithPrevious", Behavior::merged_with_previous},
                    {"MergedWithNext", Behavior::merged_with_next}};
  for (const auto& known : kBehaviors)
    if (behavior.as_string() == known.name) {
      step.behavior = known.behavior;
      return;
    }
  behavior.fail(
      fmt::format("is {}; known are Removed, Isolated, Contiguous, MergedWithPrevious and "
                  "MergedWithNext",
                  behavior.describe()));
}

Splitter::Session::Session(const Splitter& splitter) : splitter_(splitter) {
  for (const Regex& regex : splitter.regexes_) searchers_.emplace_back(regex);
}

void Splitter::Session::split(std::string_view text,
                              const std::function<void(std::string_view)>& word) {
  run(0, text, word);
}

void Splitter::Session::run(std::size_t index, std::string_view text,
                            const std::function<void(std::string_view)>& word) {
  if (text.empty()) return;
  if (index == splitter_.steps_.size()) return word(text);
  const Step& step = splitter_.steps_[index];
  if (step.kind == Kind::prefix_space) {
    if (text.starts_with(' ')) return run(index + 1, text, word);
    std::string prefixed = " ";
    prefixed += text;
    return run(index + 1, prefixed, word);
  }
  if (step.kind != Kind::regex || step.behavior != Behavior::isolated)
    return split_by_matches(index, text, word);
  // By far the most frequent step, without a list of pieces.
  Regex::Searcher& searcher = searchers_[step.regex];
  Regex::Match match;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && searcher.find(text, at, match);) {
    if (match.begin == match.end) {  // an empty match splits nothing
      at = match.end + (match.end < text.size() ? utf8_length(text.substr(match.end, 4)) : 1);
      continue;
    }
    run(index + 1, text.substr(done, match.begin - done), word);
    run(index + 1, text.substr(match.begin, match.end - match.begin), word);
    done = at = match.end;
  }
  run(index + 1, text.substr(done), word);
}

void Splitter::Session::split_by_matches(std::size_t index, std::string_view text,
                                         const std::function<void(std::string_view)>& word) {
  const Step& step = splitter_.steps_[index];
  struct Piece {
    std::size_t begin, end;
    bool match;
  };
  // Every byte is in one piece: matches, and what lies between them.
  std::vector<Piece> pieces;
  std::size_t done = 0;
  const auto add_match = [&](std::size_t begin, std::size_t end) {
    if (done < begin) pieces.push_back({done, begin, step.invert});
    pieces.push_back({begin, end, !step.invert});
    done = end;
  };
  if (step.kind == Kind::regex) {
    Regex::Match match;
    for (std::size_t at = 0; at < text.size() && searchers_[step.regex].find(text, at, match);) {
      at = match.end;
      if (match.begin == match.end)
        at += at < text.size() ? utf8_length(text.substr(at, 4)) : 1;
      else
        add_match(match.begin, match.end);
    }
  } else if (step.kind == Kind::literal) {
    for (std::size_t at; (at = text.find(step.literal, done)) != text.npos;)
      add_match(at, at + step.literal.size());
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8_length(text.substr(at, 4));
      if (is_numeric(utf8_decode(text.substr(at)))) add_match(at, at + length);
      at += length;
    }
  }
  if (done < text.size()) pieces.push_back({done, text.size(), step.invert});

  std::vector<Piece> out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool after_match = i > 0 && pieces[i - 1].match;
    switch (step.behavior) {
      case Behavior::removed:
        if (!piece.match) out.push_back(piece);
        break;
      case Behavior::isolated:
        out.push_back(piece);
        break;
      case Behavior::contiguous:
        if (i > 0 && pieces[i - 1].match == piece.match)
          out.back().end = piece.end;
        else
          out.push_back(piece);
        break;
      case Behavior::merged_with_previous:
        if (piece.match && i > 0 && !after_match)
          out.back().end = piece.end;
        else
          out.push_back(piece);
        break;
      case Behavior::merged_with_next:
        // A match waits for what follows it, unless that is a match too.
        if (i > 0 && after_match && !piece.match)
          out.back().end = piece.end;
        else
          out.push_back(piece);
        break;
    }
  }
  for (const Piece& piece : out)
    run(index + 1, text.substr(piece.begin, piece.end - piece.begin), word);
}

}  // namespace lamina::text
