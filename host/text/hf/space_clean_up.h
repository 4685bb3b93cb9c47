// Removes spaces in front of punctuation and English endings from decoded text: the key
// "clean_up_tokenization_spaces" of tokenizer_config.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

class SpaceCleanUp {
 public:
  SpaceCleanUp();

  // Returns the text that later pieces cannot change.
  std::string push(std::string text);
  // Returns the rest.
  std::string finish();

 private:
  struct Step {
    std::string_view from, to;
    std::string held;  // may be the start of a match
  };
  static std::string push(Step& step, std::string_view text);

  std::vector<Step> steps_;
};

}  // namespace lamina::text
