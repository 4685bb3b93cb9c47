#include "weights/match/pattern.h"

#include <charconv>
#include <optional>

namespace lamina::weights {

bool fits(std::string_view pattern, std::string_view text, std::int64_t& layer,
          std::int64_t num_layers) {
  struct Retry {
    std::size_t pattern, text;  // after the *, and the position of the next try
    std::int64_t layer;
  };
  constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;  // larger than any layer index
  std::optional<Retry> star;
  std::int64_t found = layer;
  std::size_t p = 0, t = 0;
  while (p < pattern.size() || t < text.size()) {
    const std::string_view left = pattern.substr(p);
    if (left.starts_with('*')) {
      star = {++p, t, found};
      continue;
    }
    std::int64_t number = 0;
    if (left.starts_with("{L}") || left.starts_with("{P}") || left.starts_with("{E}")) {
      const char* begin = text.data() + t;
      const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
      if (error == std::errc() && *begin != '-') {
        if (left[1] == 'L') found = number;
        if (left[1] == 'P') found = number < kMaxNumber ? number + num_layers : number;
        p += 3, t += static_cast<std::size_t>(end - begin);
        continue;
      }
    } else if (!left.empty() && t < text.size() && left[0] == text[t]) {
      ++p, ++t;
      continue;
    }
    if (!star || star->text == text.size()) return false;
    p = star->pattern, t = ++star->text, found = star->layer;
  }
  layer = found;
  return true;
}

}  // namespace lamina::weights
