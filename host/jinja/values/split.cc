#include "jinja/values/split.h"

#include <algorithm>

#include "jinja/values/budget.h"

namespace lamina::jinja {

Vector<TextView> split_words(TextView text, std::int64_t cuts) {
  Vector<TextView> out;
  text = strip(text, Side::left);
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (cuts == 0 || end == text.size()) {
      out.push_back(text);
      break;
    }
    --cuts;
    out.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::left);
  }
  return out;
}

Vector<TextView> split_words_right(TextView text, std::int64_t cuts) {
  Vector<TextView> out;
  text = strip(text, Side::right);
  while (!text.empty()) {
    std::size_t begin = text.size();
    while (begin > 0 && !is_space(text[begin - 1])) --begin;
    if (cuts == 0 || begin == 0) {
      out.push_back(text);
      break;
    }
    --cuts;
    out.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), Side::right);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Vector<TextView> split_at(TextView text, TextView separator, std::int64_t cuts) {
  Vector<TextView> out;
  for (;;) {
    const std::size_t at = cuts == 0 ? Text::npos : find(text, separator);
    out.push_back(text.substr(0, at));
    if (at == Text::npos) return out;
    text.remove_prefix(at + separator.size());
    --cuts;
  }
}

Vector<TextView> split_at_right(TextView text, TextView separator, std::int64_t cuts) {
  Vector<TextView> out;
  for (std::size_t at; cuts != 0 && (at = rfind(text, separator)) != Text::npos; --cuts) {
    out.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  out.push_back(text);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace lamina::jinja
