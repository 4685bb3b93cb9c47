#include "text/hf/space_clean_up.h"

#include <algorithm>
#include <utility>

namespace lamina::text {

// Replaced one after the other, as in transformers' clean_up_tokenization().
SpaceCleanUp::SpaceCleanUp() {
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    steps_.push_back({from, to, {}});
}

std::string SpaceCleanUp::push(Step& step, std::string_view text) {
  step.held += text;
  std::string out;
  for (std::size_t at; (at = step.held.find(step.from)) != std::string::npos;) {
    out.append(step.held, 0, at).append(step.to);
    step.held.erase(0, at + step.from.size());
  }
  std::size_t keep = std::min(step.held.size(), step.from.size() - 1);
  while (!step.held.ends_with(step.from.substr(0, keep))) --keep;
  out.append(step.held, 0, step.held.size() - keep);
  step.held.erase(0, step.held.size() - keep);
  return out;
}

std::string SpaceCleanUp::push(std::string text) {
  for (Step& step : steps_) text = push(step, text);
  return text;
}

std::string SpaceCleanUp::finish() {
  std::string text;
  for (Step& step : steps_) {
    text = push(step, text);
    text += std::exchange(step.held, {});
  }
  return text;
}

}  // namespace lamina::text
