#include "evaluation/white_space.h"

#include "core/utf8.h"
#include "jinja/values/text.h"

namespace lamina::evaluation {

std::string_view first_character(std::string_view text) {
  return text.substr(0, utf8_step(text).num_bytes);
}

bool is_white_space(std::string_view character) {
  return utf8_length(character) > 0 && jinja::is_space(utf8_decode(character));
}

std::string_view without_trailing_space(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = first_character(text.substr(at));
    at += character.size();
    if (!is_white_space(character)) end = at;
  }
  return text.substr(0, end);
}

}  // namespace lamina::evaluation
