// The replies of derive() and validate().
#pragma once

#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/sdk/emit.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The names of keys after Schema::rename(), by their first names. Functions of the SDK report
// problems under these names. Borrowed text.
class KeyNames {
 public:
  void rename(std::string_view name, std::string_view other) {
    for (auto& [first, now] : renamed_)
      if (now == name) return void(now = other);
    renamed_.emplace_back(name, other);
  }
  std::string_view operator()(std::string_view name) const {
    for (const auto& [first, now] : renamed_)
      if (first == name) return now;
    return name;
  }

 private:
  std::vector<std::pair<std::string_view, std::string_view>> renamed_;
};

// derive() sets here the values of keys that the config leaves out.
class Derived {
 public:
  explicit Derived(lamina_reply_t* reply, KeyNames names = {})
      : reply_(reply), names_(std::move(names)) {}
  const KeyNames& names() const { return names_; }
  // Has no effect on a key that has a value.
  void set(std::string_view key, std::int64_t value) const { send(key, to_value(value)); }
  void set(std::string_view key, int value) const { send(key, to_value(std::int64_t{value})); }
  void set(std::string_view key, double value) const { send(key, to_value(value)); }
  void set(std::string_view key, bool value) const { send(key, to_value(value)); }
  void set(std::string_view key, std::string_view value) const { send(key, to_value(value)); }
  // Without it a literal would be a flag.
  void set(std::string_view key, const char* value) const { set(key, std::string_view(value)); }

 private:
  void send(std::string_view key, lamina_value_t value) const {
    const lamina_setting_t setting{to_str(key), value};
    check(reply_->api->set(reply_, &setting));
  }
  lamina_reply_t* reply_;
  KeyNames names_;
};

// validate() reports here wrong values of keys, any number of times.
class Problems {
 public:
  explicit Problems(lamina_reply_t* reply, KeyNames names = {})
      : reply_(reply), names_(std::move(names)) {}
  const KeyNames& names() const { return names_; }
  // Reports a problem, once. The message is "got X; Y would be right", in parts: text and numbers.
  template <class... Parts>
  void operator()(std::string_view key, const Parts&... message) const {
    std::string text;
    (append(text, message), ...);
    if (!sent_.insert(std::string(key) + '\n' + text).second) return;
    check(reply_->api->problem(reply_, to_str(key), to_str(text), nullptr));
  }
  bool empty() const { return sent_.empty(); }

 private:
  static void append(std::string& text, std::string_view part) { text += part; }
  static void append(std::string& text, std::int64_t number) { text += std::to_string(number); }
  static void append(std::string& text, std::size_t number) { text += std::to_string(number); }
  static void append(std::string& text, double number) {
    char digits[32];
    text.append(digits,
                static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.9g", number)));
  }

  lamina_reply_t* reply_;
  KeyNames names_;
  mutable std::set<std::string> sent_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
