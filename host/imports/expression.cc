#include "imports/expression.h"

#include <algorithm>
#include <cctype>

#include "core/json.h"

namespace lamina::imports {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

config::Value value_of(const JsonValue& json) {
  switch (json.kind()) {
    case JsonKind::boolean:
      return json.as_bool();
    case JsonKind::integer:
    case JsonKind::unsigned_integer:
      return json.as_int64();
    case JsonKind::real:
      return json.as_double();
    case JsonKind::array: {
      config::List list;
      for (JsonValue element : json.elements())
        if (!element.is_null()) list.push_back(value_of(element));
      return list;
    }
    case JsonKind::object: {
      config::Members members;
      for (auto [name, member] : json.members())
        if (!member.is_null()) members.emplace_back(std::string(name), value_of(member));
      return members;
    }
    case JsonKind::string:
    case JsonKind::null:
      break;
  }
  return std::string(json.as_string());
}

}  // namespace

std::set<std::string> names_in(std::string_view expression) {
  static const std::set<std::string, std::less<>> language = {
      "and", "or", "not", "if", "else", "in", "is", "true", "false", "none", "defined"};
  std::set<std::string> out;
  char before = 0;  // the last non-space character before a word
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

std::string name_of_key(std::string key) {
  if (const std::size_t dot = key.find('.'); dot != key.npos) key.replace(dot, 1, "__");
  return key;
}

std::string key_of_name(std::string name) {
  if (const std::size_t at = name.find("__"); at != name.npos) name.replace(at, 2, ".");
  return name;
}

void ExpressionVariables::set(const std::string& name, const config::Value& value) {
  const std::string text = "[" + config::to_toml(value) + "]";
  const JsonDocument document = JsonDocument::parse(text, name);
  jinja::TemplateValue converted = jinja::from_json(document.root().element(0));
  for (auto& [known, old] : values_)
    if (known == name) return static_cast<void>(old = std::move(converted));
  values_.emplace_back(name, std::move(converted));
}

bool ExpressionVariables::has(std::string_view name) const {
  return std::ranges::any_of(values_, [&](const auto& known) { return known.first == name; });
}

std::string ExpressionVariables::json(const std::string& expression,
                                      const std::string& place) const {
  return jinja::Template::parse("{{ (" + expression + ") | tojson }}", place)
      .render(values_, {})
      .text;
}

bool ExpressionVariables::is_true(const std::string& expression, const std::string& place) const {
  return json("true if " + expression + " else false", place) == "true";
}

config::Value value_of_json(const std::string& json) {
  const JsonDocument document = JsonDocument::parse(json, "value");
  return value_of(document.root());
}

}  // namespace lamina::imports
