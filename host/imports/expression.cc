#include "imports/expression.h"

#include <algorithm>
#include <cctype>

#include "config/raw.h"
#include "core/json.h"

namespace lamina::imports {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

std::set<std::string> names_in(std::string_view expression) {
  static const std::set<std::string, std::less<>> language = {
      "and", "or", "not", "if", "else", "in", "is", "true", "false", "none", "defined"};
  std::set<std::string> out;
  char before = 0;  // what stands before a word, spaces aside
  for (std::size_t i = 0; i < expression.size();) {
    const char c = expression[i];
    if (c == '\'') {
      i = std::min(expression.find('\'', i + 1), expression.size() - 1) + 1;
    } else if (is_word(c)) {
      std::size_t end = i;
      while (end < expression.size() && (is_word(expression[end]) || expression[end] == '.')) {
        if (expression[end] == '.' && !std::isdigit(static_cast<unsigned char>(c))) break;
        ++end;
      }
      const std::string word(expression.substr(i, end - i));
      if (!std::isdigit(static_cast<unsigned char>(c)) && before != '.' && before != '|' &&
          !language.contains(word))
        out.insert(word);
      i = end;
    } else {
      ++i;
    }
    if (c != ' ') before = c;
  }
  return out;
}

void Variables::set(const std::string& name, const config::Value& value) {
  const std::string text = "[" + config::to_toml(value) + "]";
  const JsonDocument document = JsonDocument::parse(text, name);
  jinja::Value converted = jinja::from_json(document.root().element(0));
  for (auto& [known, old] : values_)
    if (known == name) return static_cast<void>(old = std::move(converted));
  values_.emplace_back(name, std::move(converted));
}

bool Variables::has(std::string_view name) const {
  return std::ranges::any_of(values_, [&](const auto& known) { return known.first == name; });
}

std::string Variables::json(const std::string& expression, const std::string& place) const {
  return jinja::Template::parse("{{ (" + expression + ") | tojson }}", place)
      .render(values_, {})
      .text;
}

bool Variables::is_true(const std::string& expression, const std::string& place) const {
  return json("true if " + expression + " else false", place) == "true";
}

config::Value value_of_json(const std::string& json) {
  config::Raw raw = config::parse_json("{\"value\": " + json + "}", "value", "");
  LAMINA_ASSERT(raw.entries.size() == 1);
  return std::move(raw.entries[0].value);
}

}  // namespace lamina::imports
