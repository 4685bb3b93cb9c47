// Config keys, each declared once and bound to the field of the plugin's Config.
//
//   void keys(Schema<Config>& key) {
//     key("hidden_size", &Config::hidden_size,
//         {.required = true, .min = 1, .doc = "model width D"});
//     key.size("state_size", &Config::state_size, 128, "state width S");  // a short form
//   }
#pragma once

#include <cstdio>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lamina/sdk/config_reply.h"
#include "lamina/sdk/key.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

namespace detail {
template <class Object, class Member, class... More>
auto& member_of(Object& object, Member member, More... more) {
  if constexpr (sizeof...(more) == 0)
    return object.*member;
  else
    return member_of(object.*member, more...);
}

// The type of a key's values: T for a field std::optional<T>.
template <class Field>
struct ValueOf {
  using type = Field;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};
}  // namespace detail

// The field of a key inside a part of the Config:
//   key("rope_theta", nested(&Config::rope, &RopeConfig::options, &RopeOptions::theta), {...});
template <class... Members>
constexpr auto nested(Members... members) {
  return [members...](auto& config) -> auto& { return detail::member_of(config, members...); };
}

template <class Config>
class Schema {
 public:
  // Declares a key. field: a pointer to a member, or a function that returns a reference to part of
  // a Config. A std::optional is empty if the key has no value, which an empty list is.
  template <class Field, class T = typename detail::ValueOf<
                             std::remove_cvref_t<std::invoke_result_t<Field, Config&>>>::type>
  void operator()(std::string_view name, Field field, const std::type_identity_t<Key<T>>& key) {
    declare(name, key).read = [field](std::string_view now, Config& c,
                                      const lamina_config_t* config) {
      lamina_value_t value{};
      check(config->api->get(config, to_str(now), &value));
      if (value.type == 0) return;
      if (value.type != kind_of<T>())
        raise(Error(LAMINA_ERROR_CONFIG, "the host gave '" + std::string(now) +
                                             "' a value of another kind than declared"));
      std::invoke(field, c) = from_value<T>(value);
    };
  }

  // Short forms of usual keys. Fields are std::int64_t, bool and double.
  // A size, at least 1; required without a default.
  template <class Field>
  void size(std::string_view name, Field field, std::string_view doc) {
    (*this)(name, field, {.required = true, .min = 1, .doc = doc});
  }
  template <class Field>
  void size(std::string_view name, Field field, Fallback<std::int64_t> fallback,
            std::string_view doc) {
    (*this)(name, field, {.fallback = fallback, .min = 1, .doc = doc});
  }
  // A number of things, which may be 0.
  template <class Field>
  void count(std::string_view name, Field field, Fallback<std::int64_t> fallback,
             std::string_view doc) {
    (*this)(name, field, {.fallback = fallback, .min = 0, .doc = doc});
  }
  template <class Field>
  void flag(std::string_view name, Field field, Fallback<bool> fallback, std::string_view doc) {
    (*this)(name, field, {.fallback = fallback, .doc = doc});
  }
  // A number above 0 that multiplies or is added, eg: logit_scale, norm_eps.
  template <class Field>
  void factor(std::string_view name, Field field, Fallback<double> fallback, std::string_view doc) {
    (*this)(name, field, {.fallback = fallback, .above = 0, .doc = doc});
  }

  // Changes of keys that are declared already, eg: by standard_keys(). A name that is not declared
  // is an error.
  // Gives the key another name, in run files and in config.json: norm_eps for rms_norm_eps. The
  // defaults and checks of the SDK use it too. Refuses keys that the host reads by name.
  void rename(std::string_view name, std::string_view other) {
    for (std::string_view fixed : {LAMINA_CONFIG_VOCAB_SIZE, LAMINA_CONFIG_HIDDEN_SIZE,
                                   LAMINA_CONFIG_NUM_LAYERS, LAMINA_CONFIG_MAX_POSITIONS})
      if (name == fixed)
        raise(Error(LAMINA_ERROR_ARGUMENT,
                    "the key '" + std::string(name) +
                        "' cannot be renamed, because the host reads it; alias() adds a name"));
    names_.rename(name, other);
    declared(name).key.name = to_str(other);
    for (Declared& one : all_)
      if (to_view(one.key.same_as) == name) one.key.same_as = to_str(other);
  }
  // Adds a path of config.json from which the key is read if the file lacks its name.
  void alias(std::string_view name, std::string_view other) {
    lamina_key_t& key = declared(name).key;
    std::vector<lamina_str_t>& aliases = strs_.emplace_back();
    for (std::uint32_t i = 0; i < key.aliases.count; ++i)
      aliases.push_back(static_cast<const lamina_str_t*>(key.aliases.ptr)[i]);
    aliases.push_back(to_str(other));
    key.aliases = to_span(aliases);
  }
  // Removes the key. Its field keeps the value of an empty Config.
  void drop(std::string_view name) {
    Declared& gone = declared(name);
    all_.erase(all_.begin() + (&gone - all_.data()));
  }

  // Ignores keys of config.json that cannot change what the model computes, eg: names of files,
  // settings of the original's kernels. The host lists every key that is neither declared nor
  // ignored.
  void ignore(const std::vector<std::string_view>& names) {
    for (std::string_view name : names) {
      lamina_key_t& out = all_.emplace_back().key;
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
    declare(name, key).check = [value, why](std::string_view now, const lamina_config_t* config,
                                            Refusals& out) {
      lamina_value_t given{};
      check(config->api->get(config, to_str(now), &given));
      if (given.type == 0) return;
      const T got = from_value<T>(given);
      if constexpr (list) {
        for (std::string_view one : got)
          if (one != value.front()) return out.add(now, shown(one), shown(value.front()), why);
      } else if (got != value) {
        out.add(now, shown(got), shown(value), why);
      }
    };
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
    for (const Declared& one : all_)
      if (one.check) one.check(to_view(one.key.name), config, out);
    return out;
  }

  // Keeps text alive that keys borrow.
  std::string_view keep_text(std::string text) { return texts_.emplace_back(std::move(text)); }

  Config read(const lamina_config_t* config) const {
    Config c{};
    for (const Declared& one : all_)
      if (one.read) one.read(to_view(one.key.name), c, config);
    return c;
  }
  std::vector<lamina_key_t> keys() const {
    std::vector<lamina_key_t> out;
    for (const Declared& one : all_) out.push_back(one.key);
    return out;
  }
  const KeyNames& names() const { return names_; }
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

  struct Declared {
    lamina_key_t key{};
    std::function<void(std::string_view name, Config&, const lamina_config_t*)> read = {};
    std::function<void(std::string_view name, const lamina_config_t*, Refusals&)> check = {};
  };

  const lamina_key_t* find(std::string_view name) const {
    for (const Declared& one : all_)
      if (to_view(one.key.name) == name) return &one.key;
    return nullptr;
  }
  Declared& declared(std::string_view name) {
    for (Declared& one : all_)
      if (to_view(one.key.name) == name && !(one.key.flags & LAMINA_KEY_IGNORED)) return one;
    raise(Error(LAMINA_ERROR_ARGUMENT, "the key '" + std::string(name) +
                                           "' is changed, but not declared; declare it first"));
  }

  template <class T>
  Declared& declare(std::string_view name, const Key<T>& key) {
    lamina_key_t& out = all_.emplace_back().key;
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
    return all_.back();
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

  std::vector<Declared> all_;
  KeyNames names_;
  // Storage that keys point to; a deque does not move its elements.
  std::deque<std::string> texts_;
  std::deque<std::vector<lamina_str_t>> strs_;
  std::deque<std::vector<std::int64_t>> integers_;
  std::deque<std::vector<double>> numbers_;
};

}  // namespace lamina::sdk
#pragma GCC visibility pop
