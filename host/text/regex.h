// Regular expressions of tokenizers, matched by PCRE2 with the semantics of the reference
// tokenizer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lamina::text {

class Regex {
 public:
  // The semantics: tokenizer.json's, or tiktoken's, in which "{1,3}+" is possessive, "^" and "$"
  // are the ends of the text and not of its lines.
  enum class Dialect { oniguruma, fancy_regex };

  // `where` names the file and the key in errors (UserError, class checkpoint): a syntax error, or
  // a construct that PCRE2 interprets differently from the reference.
  Regex(std::string_view pattern, std::string where, Dialect dialect = Dialect::oniguruma);
  Regex(Regex&&) noexcept;
  ~Regex();

  struct Match {
    std::size_t begin, end;
  };

  // The state of one thread's search; make one per text, not per word.
  class Searcher {
   public:
    explicit Searcher(const Regex& regex);
    Searcher(const Searcher&) = delete;
    Searcher(Searcher&&) noexcept;
    ~Searcher();
    // Finds the first match that begins at or after `start`. `text` must be valid UTF-8 and `start`
    // the beginning of a character. Throws UserError (class data) if matching exceeds the limits (a
    // pattern that backtracks without end).
    bool find(std::string_view text, std::size_t start, Match& match);

   private:
    struct State;
    const Regex* regex_;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string where_;
};

namespace detail {
// The pattern in PCRE2's syntax, with the reference's classes. Exposed for tests.
std::string rewrite_pattern(std::string_view pattern, const std::string& where,
                            Regex::Dialect dialect = Regex::Dialect::oniguruma);
}  // namespace detail

}  // namespace lamina::text
