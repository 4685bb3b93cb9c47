// Cuts text into the pieces ("words") inside which byte pairs are merged: the pre_tokenizer of
// tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/regex.h"

namespace lamina::text {

class Splitter {
 public:
  // The value of the key "pre_tokenizer". It must end with ByteLevel: lamina works on bytes.
  // Errors (class checkpoint): a type or a behavior that lamina lacks.
  Splitter(const JsonValue& json, const std::string& file);

  // One thread's splitting of one text; const use of the splitter.
  class Session {
   public:
    explicit Session(const Splitter& splitter);
    // Calls `word` for every piece of `text` (valid UTF-8) in order; a piece is valid during the
    // call.
    void split(std::string_view text, const std::function<void(std::string_view)>& word);

   private:
    void run(std::size_t step, std::string_view text,
             const std::function<void(std::string_view)>& word);
    void split_by_matches(std::size_t step, std::string_view text,
                          const std::function<void(std::string_view)>& word);

    const Splitter& splitter_;
    std::vector<Regex::Searcher> searchers_;  // by index of regex
  };

 private:
  enum class Kind { regex, literal, digits, prefix_space };
  enum class Behavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };
  struct Step {
    Kind kind;
    Behavior behavior = Behavior::isolated;
    bool invert = false;
    std::size_t regex = 0;  // index
    std::string literal = {};
  };
  void add(const JsonValue& json, bool last);
  void add_split(const JsonValue& json);
  void add_regex(std::string_view pattern, std::string where);

  std::vector<Step> steps_;
  std::vector<Regex> regexes_;
  std::string file_;
};

}  // namespace lamina::text
