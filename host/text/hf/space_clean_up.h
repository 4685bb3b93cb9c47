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

  // The text that is certain after more text.
  std::string push(std::string text);
  std::string finish();

 private:
  struct Step {
    std::string_view from, to;
    std::string held;  // the begin of a match, maybe
  };
  static std::string push(Step& step, std::string_view text);

  std::vector<Step> steps_;
};

}  // namespace lamina::text
