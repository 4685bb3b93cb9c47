// Config keys, each declared once and bound to the field of the plugin's Config.
//
//   void keys(Schema<Config>& key) {
//     key("hidden_size", &Config::hidden_size,
//         {.required = true, .min = 1, .doc = "model width D"});
//   }
#pragma once

#include <cstdio>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lamina/sdk/emit.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// The declaration of a key. T is the type of its field: std::int64_t, double, bool,
// std::string_view, or std::vector of std::int64_t, double or std::string_view. All text is
// borrowed: use literals.
template <class T>
struct Key {
  bool required = false;
  std::optional<T> fallback = {};  // the family's default
  std::string_view same_as = {};   // a key whose value is the default
  std::optional<double> min = {};  // limits of numbers, or of each number of a list
  std::optional<double> max = {};
  std::optional<double> above = {};  // exclusive limits
  std::optional<double> below = {};
  std::vector<std::string_view> choices = {};
  std::vector<std::string_view> aliases = {};  // other dotted paths in config.json
  std::string_view hf_name = {};               // path in an exported config.json; empty = the name
  std::uint32_t flags = 0;                     // LAMINA_KEY_*
  // A key that the original lacks: config.json has it in the object "lamina", and only if the value
  // is not the default.
  bool own = false;
  std::string_view doc = {};  // one line, with the unit
};

template <class T>
constexpr std::uint32_t kind_of() {
  if constexpr (std::is_same_v<T, bool>)
    return LAMINA_KIND_BOOL;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return LAMINA_KIND_INT;
  else if constexpr (std::is_same_v<T, double>)
    return LAMINA_KIND_FLOAT;
  else if constexpr (std::is_same_v<T, std::string_view>)
    return LAMINA_KIND_STRING;
  else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    return LAMINA_KIND_INT_LIST;
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return LAMINA_KIND_FLOAT_LIST;
  else {
    static_assert(std::is_same_v<T, std::vector<std::string_view>>, "no such kind of key");
    return LAMINA_KIND_STRING_LIST;
  }
}

template <class T>
T from_value(const lamina_value_t& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value.v.i != 0;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return value.v.i;
  else if constexpr (std::is_same_v<T, double>)
    return value.v.f;
  else if constexpr (std::is_same_v<T, std::string_view>)
    return to_view(value.v.s);
  else {
    using Element = typename T::value_type;
    T out;
    for (std::uint32_t i = 0; i < value.v.list.count; ++i) {
      const void* at = static_cast<const char*>(value.v.list.ptr) + i * value.v.list.stride;
      if constexpr (std::is_same_v<Element, std::string_view>)
        out.push_back(to_view(*static_cast<const lamina_str_t*>(at)));
      else
        out.push_back(*static_cast<const Element*>(at));
    }
    return out;
  }
}

template <class Config>
class Schema {
 public:
  // Declares a key. field: a pointer to a member, or a function that returns a reference to part of
  // a Config.
  template <class Field, class T = std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>
  void operator()(std::string_view name, Field field, const std::type_identity_t<Key<T>>& key) {
    declare(name, key);
    readers_.push_back([name, field](Config& c, const lamina_config_t* config) {
      lamina_value_t value{};
      check(config->api->get(config, to_str(name), &value));
      if (value.type == 0) return;
      if (value.type != kind_of<T>())
        raise(Error(LAMINA_ERROR_CONFIG, "the host gave '" + std::string(name) +
                                             "' a value of another kind than declared"));
      std::invoke(field, c) = from_value<T>(value);
    });
  }

  // Ignores keys of config.json that cannot change what the model computes, eg: names of files,
  // settings of the original's kernels. The host lists every key that is neither declared nor
  // ignored.
  void ignore(const std::vector<std::string_view>& names) {
    for (std::string_view name : names) {
      lamina_key_t& out = keys_.emplace_back();
      out = {};
      out.size = sizeof out;
      out.type = LAMINA_KIND_STRING;
      out.flags = LAMINA_KEY_IGNORED;
      out.name = to_str(name);
    }
  }

  // Declares a key of config.json that is supported with one value only, which is also the default;
  // every element of a list must have it. Other values are errors. `why` is the reason, eg:
  // "experts have no biases here".
  template <class T>
  void only(std::string_view name, T value, std::string_view why) {
    constexpr bool list = std::is_same_v<T, std::vector<std::string_view>>;
    Key<T> key{.flags = LAMINA_KEY_HF_ONLY | (list ? LAMINA_KEY_PER_LAYER : 0u), .doc = why};
    declare(name, key);
    checks_.push_back([name, value, why](const lamina_config_t* config, Refusals& out) {
      lamina_value_t given{};
      check(config->api->get(config, to_str(name), &given));
      if (given.type == 0) return;
      const T got = from_value<T>(given);
      if constexpr (list) {
        for (std::string_view one : got)
          if (one != value.front()) return out.add(name, shown(one), shown(value.front()), why);
      } else if (got != value) {
        out.add(name, shown(got), shown(value), why);
      }
    });
  }

  // The errors of keys that only() declared.
  struct Refusals {
    struct One {
      std::string_view key;
      std::string text;
    };
    std::vector<One> each;
    void add(std::string_view key, const std::string& got, const std::string& right,
             std::string_view why) {
      each.push_back({key, "got " + got + "; it must be " + right + ": " + std::string(why)});
    }
  };
  Refusals refusals(const lamina_config_t* config) const {
    Refusals out;
    for (const auto& one : checks_) one(config, out);
    return out;
  }

  // Keeps text alive that keys borrow.
  std::string_view keep_text(std::string text) { return texts_.emplace_back(std::move(text)); }

  Config read(const lamina_config_t* config) const {
    Config c{};
    for (const auto& reader : readers_) reader(c, config);
    return c;
  }
  const std::vector<lamina_key_t>& keys() const { return keys_; }
  // True if a key is declared or ignored.
  bool knows(std::string_view name) const { return find(name) != nullptr; }
  bool declares(std::string_view name) const {
    const lamina_key_t* key = find(name);
    return key && !(key->flags & LAMINA_KEY_IGNORED);
  }

 private:
  static std::string shown(std::string_view text) { return "\"" + std::string(text) + "\""; }
  static std::string shown(bool flag) { return flag ? "true" : "false"; }
  static std::string shown(std::int64_t number) { return std::to_string(number); }
  static std::string shown(double number) {
    char digits[32];
    return {digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%.9g", number))};
  }

  const lamina_key_t* find(std::string_view name) const {
    for (const lamina_key_t& key : keys_)
      if (to_view(key.name) == name) return &key;
    return nullptr;
  }

  template <class T>
  void declare(std::string_view name, const Key<T>& key) {
    lamina_key_t out{};
    out.size = sizeof out;
    out.type = kind_of<T>();
    out.flags = key.flags | (key.required ? LAMINA_KEY_REQUIRED : 0) |
                (key.above ? LAMINA_KEY_ABOVE_MIN : 0) | (key.below ? LAMINA_KEY_BELOW_MAX : 0);
    out.name = to_str(name);
    out.doc = to_str(key.doc);
    out.same_as = to_str(key.same_as);
    out.hf_name = to_str(key.hf_name);
    std::vector<std::string_view> aliases = key.aliases;
    if (key.own) {
      const std::string_view path = keep_text("lamina." + std::string(name));
      out.hf_name = to_str(path);
      aliases.push_back(path);
    }
    out.aliases = to_span(strs_.emplace_back(to_strs(aliases)));
    out.choices = to_span(strs_.emplace_back(to_strs(key.choices)));
    if (key.min) out.min = limit<T>(*key.min);
    if (key.max) out.max = limit<T>(*key.max);
    if (key.above) out.min = limit<T>(*key.above);
    if (key.below) out.max = limit<T>(*key.below);
    if (key.fallback) out.fallback = keep(*key.fallback);
    keys_.push_back(out);
  }

  template <class T>
  static lamina_value_t limit(double value) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::vector<double>>)
      return to_value(value);
    else
      return to_value(static_cast<std::int64_t>(value));
  }

  template <class T>
  lamina_value_t keep(const T& value) {
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      return to_value(std::span<const std::int64_t>(integers_.emplace_back(value)));
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      return to_value(std::span<const double>(numbers_.emplace_back(value)));
    } else if constexpr (std::is_same_v<T, std::vector<std::string_view>>) {
      lamina_value_t out{};
      out.type = LAMINA_KIND_STRING_LIST;
      out.v.list = to_span(strs_.emplace_back(to_strs(value)));
      return out;
    } else {
      return to_value(value);
    }
  }

  std::vector<lamina_key_t> keys_;
  std::vector<std::function<void(Config&, const lamina_config_t*)>> readers_;
  std::vector<std::function<void(const lamina_config_t*, Refusals&)>> checks_;
  // Storage that keys_ point to; a deque does not move its elements.
  std::deque<std::string> texts_;
  std::deque<std::vector<lamina_str_t>> strs_;
  std::deque<std::vector<std::int64_t>> integers_;
  std::deque<std::vector<double>> numbers_;
};

// derive() sets here the values of keys that the config leaves out.
class Derived {
 public:
  explicit Derived(lamina_reply_t* reply) : reply_(reply) {}
  // Has no effect on a key that has a value.
  void set(std::string_view key, std::int64_t value) const { send(key, to_value(value)); }
  void set(std::string_view key, double value) const { send(key, to_value(value)); }
  void set(std::string_view key, bool value) const { send(key, to_value(value)); }
  void set(std::string_view key, std::string_view value) const { send(key, to_value(value)); }

 private:
  void send(std::string_view key, lamina_value_t value) const {
    const lamina_setting_t setting{to_str(key), value};
    check(reply_->api->set(reply_, &setting));
  }
  lamina_reply_t* reply_;
};

// validate() reports here wrong values of keys, any number of times.
class Problems {
 public:
  explicit Problems(lamina_reply_t* reply) : reply_(reply) {}
  // Reports a problem. The message is "got X; Y would be right", in parts: text and numbers.
  template <class... Parts>
  void operator()(std::string_view key, const Parts&... message) const {
    std::string text;
    (append(text, message), ...);
    check(reply_->api->problem(reply_, to_str(key), to_str(text), nullptr));
    ++count_;
  }
  bool empty() const { return count_ == 0; }

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
  mutable int count_ = 0;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
