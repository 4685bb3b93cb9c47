// A config text and the words that its error must contain.
#pragma once

#include <string>

namespace lamina::config {

struct Refusal {
  std::string text;
  std::string says;
};

}  // namespace lamina::config
