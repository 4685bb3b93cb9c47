// Regular expressions of tokenizers, matched by PCRE2 with the meaning that the reference tokenizer
// gives them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lamina::text {

class Regex {
 public:
  // Whose meaning: of tokenizer.json, or of tiktoken, where "{1,3}+" is possessive and "$" is the
  // end of the text only.
  enum class Dialect { oniguruma, fancy_regex };

  // `where` names the file and the key in errors (UserError, class checkpoint): a syntax error, or
  // a construct that PCRE2 reads differently from the reference.
  Regex(std::string_view pattern, std::string where, Dialect dialect = Dialect::oniguruma);
  Regex(Regex&&) noexcept;
  ~Regex();

  struct Match {
    std::size_t begin, end;
  };

  // What one thread needs to search; make one per text, not per word.
  class Searcher {
   public:
    explicit Searcher(const Regex& regex);
    Searcher(const Searcher&) = delete;
    Searcher(Searcher&&) noexcept;
    ~Searcher();
    // Finds the first match that begins at or after `start`. `text` must be valid UTF-8 and
    // `start` a character's begin. Throws a UserError (class data) where matching would take
    // longer than is reasonable (a pattern that backtracks without end).
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
// The pattern in PCRE2's syntax, its classes as the reference has them. Exposed for tests.
std::string rewrite_pattern(std::string_view pattern, const std::string& where,
                            Regex::Dialect dialect = Regex::Dialect::oniguruma);
}  // namespace detail

}  // namespace lamina::text
