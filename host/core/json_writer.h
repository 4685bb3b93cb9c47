// Writes JSON text: strict, UTF-8, numbers that read back exactly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lamina {

// Returns `text` as a JSON string with quotes; invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

// Returns a finite double as the shortest decimal that reads back the same, always with "." or "e";
// "null" for a NaN or an infinity, which JSON does not support.
std::string json_number(double value);
std::string json_number(float value);

//   JsonWriter json;                    // or JsonWriter json(2) for lines indented by 2
//   json.begin_object().key("step").value(7).key("loss").value(2.5).end_object();
//   json.text() == R"({"step":7,"loss":2.5})"
class JsonWriter {
 public:
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return begin('{'); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array() { return begin('['); }
  JsonWriter& end_array() { return end(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text) { return raw(json_quote(text)); }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter& value(double number) { return raw(json_number(number)); }
  JsonWriter& value(float number) { return raw(json_number(number)); }
  JsonWriter& value(int number) { return value(static_cast<long long>(number)); }
  JsonWriter& value(long number) { return value(static_cast<long long>(number)); }
  JsonWriter& value(long long number) { return raw(std::to_string(number)); }
  JsonWriter& value(unsigned number) { return value(static_cast<unsigned long long>(number)); }
  JsonWriter& value(unsigned long number) { return value(static_cast<unsigned long long>(number)); }
  JsonWriter& value(unsigned long long number) { return raw(std::to_string(number)); }
  JsonWriter& value(const JsonValue& copied);  // with everything below it
  JsonWriter& null() { return raw("null"); }
  // Writes text that is one JSON value.
  JsonWriter& raw(std::string_view json);

  const std::string& text() const { return text_; }

 private:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  void separate();
  void new_line();

  int indent_;
  std::string text_;
  std::vector<bool> has_items_;  // per open container
  bool after_key_ = false;
};

}  // namespace lamina
