// The declaration of a config key: type, default, limits, names and help text.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lamina/sdk/emit.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

namespace detail {
template <class T>
struct ElementOf {
  static constexpr bool exists = false;
  struct type {};
};
template <class E>
struct ElementOf<std::vector<E>> {
  static constexpr bool exists = true;
  using type = E;
};
}  // namespace detail

// True for values that a key of type T can have as default without a conversion of the kind: a
// fraction is no default of an integer, and a number none of a flag.
template <class T, class U>
inline constexpr bool kIsDefaultOf = [] {
  if constexpr (std::is_same_v<T, bool>)
    return std::is_same_v<U, bool>;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return std::is_integral_v<U> && !std::is_same_v<U, bool>;
  else if constexpr (std::is_same_v<T, double>)
    return std::is_arithmetic_v<U> && !std::is_same_v<U, bool>;
  else
    return std::is_convertible_v<U, T>;
}();

// The default of a key, or none. A value of another kind does not compile.
template <class T>
class Fallback {
 public:
  Fallback() = default;
  Fallback(std::nullopt_t) {}
  template <class U>
  requires kIsDefaultOf<T, U> Fallback(const U& value) : value_(static_cast<T>(value)) {}
  template <std::same_as<std::optional<T>> U>
  Fallback(const U& value) : value_(value) {}
  Fallback(std::initializer_list<typename detail::ElementOf<T>::type> values) requires
      detail::ElementOf<T>::exists : value_(T(values)) {}

  explicit operator bool() const { return value_.has_value(); }
  const T& operator*() const { return *value_; }

 private:
  std::optional<T> value_;
};

// The declaration of a key. T is the type of its field: std::int64_t, double, bool,
// std::string_view, or std::vector of std::int64_t, double or std::string_view. All text is
// borrowed: use literals.
template <class T>
struct Key {
  bool required = false;
  Fallback<T> fallback = {};  // the family's default
  // A key whose value is the default. Beside a fallback it is the value of a null in config.json.
  std::string_view same_as = {};
  std::optional<double> min = {};  // limits of numbers, or of each number of a list
  std::optional<double> max = {};
  std::optional<double> above = {};  // exclusive limits
  std::optional<double> below = {};
  // Strings: the allowed ones; empty = any. Numbers and flags: words in their place that mean that
  // the value is not given, so that derive() or the default sets it: {"auto"}.
  std::vector<std::string_view> choices = {};
  // Other dotted paths in config.json. "layers[].width" gives a list: the member "width" of every
  // object in the list "layers", 0 or "" where an object lacks it. "per_layer_config.*.width" gives
  // a list of integers by the layer that the star stands for: 0 where it has no value, and as long
  // as the last layer that has one, but at least one element if the object exists.
  std::vector<std::string_view> aliases = {};
  std::string_view hf_name = {};  // path in an exported config.json; empty = the name
  std::uint32_t flags = 0;        // LAMINA_KEY_*
  // A key that the original lacks: config.json has it in the object "lamina", and only if the value
  // is not the default. Families without the key refuse such a file. The name "family" is the
  // host's there.
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

}  // namespace lamina::sdk
#pragma GCC visibility pop
