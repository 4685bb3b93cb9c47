// Splits text into the pieces ("words") that the model encodes one by one: the pre_tokenizer of
// tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/regex.h"
#include "text/traced.h"

namespace lamina::text {

class Splitter {
 public:
  // The effect of the step ByteLevel: none, because the model reads bytes, or every byte becomes a
  // character of GPT-2's alphabet.
  enum class Bytes { as_they_are, spelled };

  // Reads the value of the key "pre_tokenizer"; null splits nothing. Errors (class checkpoint): a
  // type or a behavior that lamina lacks.
  Splitter(const JsonValue& json, const std::string& file, Bytes bytes);
  // One step, by a pattern; each match is a piece.
  Splitter(std::string_view pattern, std::string where, Regex::Dialect dialect);

  // True if the last step is ByteLevel and no other one is, so that words may be encoded as bytes.
  static bool ends_with_byte_level(const JsonValue& json);

  // The splitting of one text by one thread; const use of the splitter.
  class Session {
   public:
    using Word = std::function<void(const TextPiece&)>;
    explicit Session(const Splitter& splitter);
    // Calls `word` for every piece in order; it is valid during the call.
    void split(const TextPiece& text, const Word& word) { run(0, text, word); }

   private:
    void run(std::size_t step, const TextPiece& text, const Word& word);
    void split_by_matches(std::size_t step, const TextPiece& text, const Word& word);
    void split_by_class(std::size_t step, const TextPiece& text, const Word& word);

    const Splitter& splitter_;
    std::vector<Regex::Searcher> searchers_;  // by index of regex
  };

 private:
  enum class Behavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };
  enum class PrependScheme { always, first, never };
  struct Step {
    enum class Kind {
      regex,
      literal,
      characters,    // of one kind
      words,         // runs of word characters and runs of others, without white space
      prefix_space,  // before a text that does not begin with one
      spell_bytes,
      metaspace,  // spaces become `literal`, which is also put before the text
    } kind;
    Behavior behavior = Behavior::isolated;
    bool invert = false;
    std::size_t regex = 0;  // index
    std::string literal = {};
    bool (*character)(char32_t) = nullptr;
    PrependScheme scheme = PrependScheme::never;
  };
  struct Kind;
  static const Kind kKinds[];

  void add_byte_level(const JsonValue& json);
  void add_digits(const JsonValue& json);
  void add_metaspace(const JsonValue& json);
  void add_punctuation(const JsonValue& json);
  void add_split(const JsonValue& json);
  void add_whitespace(const JsonValue& json);
  void add_whitespace_split(const JsonValue& json);
  void add_regex(std::string_view pattern, std::string where,
                 Regex::Dialect dialect = Regex::Dialect::oniguruma);
  static Behavior read_behavior(const JsonValue& json);

  std::vector<Step> steps_;
  std::vector<Regex> regexes_;
  std::string file_;
  Bytes bytes_ = Bytes::as_they_are;
};

}  // namespace lamina::text
