#include "core/json_writer.h"

#include <cmath>

#include "core/printable.h"
#include "core/utf8.h"

namespace lamina {
namespace {

template <typename Float>
std::string number(Float value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

// Returns whether the character is written unescaped, whatever follows.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte != 0x7f && byte != '"' && byte != '\\' && byte != 0xc2 &&
         byte != 0xe2;
}

}  // namespace

std::string json_number(double value) { return number(value); }
std::string json_number(float value) { return number(value); }

std::string json_quote(std::string_view text) {
  std::string valid;
  if (find_invalid_utf8(text) != text.npos) {
    valid = replace_invalid_utf8(text);
    text = valid;
  }
  std::string out = "\"";
  out.reserve(text.size() + text.size() / 16 + 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t end = i;
    while (end < text.size() && is_plain(text[end])) ++end;
    out += text.substr(i, end - i);
    i = end;
    if (i == text.size()) break;
    const char c = text[i];
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        else if (c == '\xc2' && static_cast<unsigned char>(text[i + 1]) < 0xa0)  // C1 controls
          out += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[++i]));
        else if (overrides_direction(text.substr(i))) {
          out += fmt::format("\\u20{}{:x}", text[i + 1] == '\x80' ? 2 : 6,
                             static_cast<unsigned char>(text[i + 2]) & 15);
          i += 2;
        } else
          out += c;
    }
  }
  return out += '"';
}

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  text_ += '\n';
  text_.append(has_items_.size() * static_cast<std::size_t>(indent_), ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) text_ += ',';
  has_items_.back() = true;
  new_line();
}

JsonWriter& JsonWriter::begin(char bracket) {
  separate();
  text_ += bracket;
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  LAMINA_ASSERT(!has_items_.empty() && !after_key_);
  const bool has_items = has_items_.back();
  has_items_.pop_back();
  if (has_items) new_line();
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  LAMINA_ASSERT(!has_items_.empty() && !after_key_);
  separate();
  text_ += json_quote(name);
  text_ += indent_ == 0 ? ":" : ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::value(const JsonValue& copied) {
  switch (copied.kind()) {
    case JsonKind::null:
      return null();
    case JsonKind::boolean:
      return value(copied.as_bool());
    case JsonKind::integer:
      return value(static_cast<long long>(copied.as_int64()));
    case JsonKind::unsigned_integer:
      return value(static_cast<unsigned long long>(copied.as_uint64()));
    case JsonKind::real: {
      // Only documents that were read with infinite numbers contain them.
      const double number = copied.as_double();
      return std::isfinite(number) ? value(number) : raw(std::string(infinite_number(number)));
    }
    case JsonKind::string:
      return value(copied.as_string());
    case JsonKind::array:
      begin_array();
      for (JsonValue element : copied.elements()) value(element);
      return end_array();
    case JsonKind::object:
      break;
  }
  begin_object();
  for (const auto& [name, member] : copied.members()) key(name).value(member);
  return end_object();
}

}  // namespace lamina
