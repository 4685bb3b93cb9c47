// A text of a config and what the error about it must say.
#pragma once

#include <string>

namespace lamina::config {

struct Refusal {
  std::string text;
  std::string says;
};

}  // namespace lamina::config
