// Binds declared keys to the fields of a struct. The field's initialiser is the key's default:
//
//   struct TrainConfig { std::int64_t steps = 1000; };
//   const Fields<TrainConfig>& train_fields() {
//     static const Fields<TrainConfig> fields = {
//         field("steps", &TrainConfig::steps, {.unit = "optimizer steps", .min = 1, .doc = "..."}),
//     };
//     return fields;
//   }
//
//   Schema schema{{section("train", "The training loop.", train_fields())}};
//   TrainConfig train = read("train", train_fields(), resolved.values);
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/schema.h"
#include "core/dtype.h"

namespace lamina::config {

// Properties of a key other than name, type and default.
struct Declaration {
  std::string preset_text = {};
  std::string unit = {};
  std::optional<double> min = {};
  std::optional<double> max = {};
  bool min_excluded = false;
  bool max_excluded = false;
  std::vector<std::string> choices = {};
  std::string doc = {};
  bool required = false;
  bool hot = false;
  bool path = false;
  std::vector<std::string> path_words = {};
  std::optional<Requirement> only_for = {};
};

template <typename Struct>
struct Field {
  Key key;
  std::function<void(Struct&, const Value&)> set;
};

template <typename Struct>
using Fields = std::vector<Field<Struct>>;

namespace detail {

// Maps a C++ type to its type in run files.
template <typename T>
struct Codec;

template <>
struct Codec<bool> {
  static constexpr Type kType = Type::boolean;
  static Value encode(bool value) { return value; }
  static bool decode(const Value& value) { return std::get<bool>(value.data); }
};

template <typename T>
requires std::is_integral_v<T>
struct Codec<T> {
  static constexpr Type kType = Type::integer;
  static Value encode(T value) { return static_cast<std::int64_t>(value); }
  static T decode(const Value& value) { return static_cast<T>(std::get<std::int64_t>(value.data)); }
};

template <typename T>
requires std::is_floating_point_v<T>
struct Codec<T> {
  static constexpr Type kType = Type::number;
  static Value encode(T value) { return static_cast<double>(value); }
  static T decode(const Value& value) { return static_cast<T>(std::get<double>(value.data)); }
};

template <>
struct Codec<std::string> {
  static constexpr Type kType = Type::string;
  static Value encode(const std::string& value) { return value; }
  static std::string decode(const Value& value) { return std::get<std::string>(value.data); }
};

// Run files use the long names, eg: "bfloat16". A key of this type declares its choices, because
// not every type is valid.
template <>
struct Codec<DType> {
  static constexpr Type kType = Type::string;
  static Value encode(DType value) { return std::string(long_name(value)); }
  static DType decode(const Value& value) {
    return *parse_dtype(std::get<std::string>(value.data));
  }
};

// Keys of the tables in a list of `T`: specialise it beside the fields.
template <typename T>
const Fields<T>& table_fields();

template <typename T>
requires std::is_class_v<T>
struct Codec<T> {
  static constexpr Type kType = Type::table;
  static Value encode(const T&) { return Members{}; }
  static T decode(const Value& value) {
    T out;
    for (const auto& [name, member] : std::get<Members>(value.data))
      for (const Field<T>& field : table_fields<T>())
        if (field.key.name == name) field.set(out, member);
    return out;
  }
};

template <typename T>
struct Codec<std::vector<T>> {
  static constexpr Type kType = Type::list;
  static Value encode(const std::vector<T>& values) {
    List out;
    for (const T& value : values) out.push_back(Codec<T>::encode(value));
    return Value(std::move(out));
  }
  static std::vector<T> decode(const Value& value) {
    std::vector<T> out;
    for (const Value& element : std::get<List>(value.data))
      out.push_back(Codec<T>::decode(element));
    return out;
  }
};

template <typename T>
struct Bare {
  using type = T;
};
template <typename T>
struct Bare<std::optional<T>> {
  using type = T;
};
template <typename T>
struct Element {
  using type = std::string;
};
template <typename T>
struct Element<std::vector<T>> {
  using type = T;
};

template <typename T>
std::vector<Key> member_keys() {
  std::vector<Key> out;
  if constexpr (Codec<T>::kType == Type::table)
    for (const Field<T>& field : table_fields<T>()) out.push_back(field.key);
  return out;
}

Key make_key(std::string name, Type type, Type element, Declaration declaration);

}  // namespace detail

// Declares the key `name` of the section and binds it to `member`: bool, an integer, a
// floating-point number, std::string, DType, a std::vector of one of these or of structs that have
// detail::table_fields(), or a std::optional of any (absent unless given).
template <typename Struct, typename Member>
Field<Struct> field(std::string name, Member Struct::*member, Declaration declaration) {
  using T = typename detail::Bare<Member>::type;
  using Codec = detail::Codec<T>;
  using ElementType = typename detail::Element<T>::type;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr bool kNarrow = sizeof(T) < 8;
    if (!declaration.min && (kNarrow || std::is_unsigned_v<T>))
      declaration.min = static_cast<double>(std::numeric_limits<T>::min());
    if (!declaration.max && kNarrow)
      declaration.max = static_cast<double>(std::numeric_limits<T>::max());
  }
  Field<Struct> out;
  out.key = detail::make_key(std::move(name), Codec::kType, detail::Codec<ElementType>::kType,
                             std::move(declaration));
  if constexpr (Codec::kType == Type::list) out.key.members = detail::member_keys<ElementType>();
  if constexpr (std::is_same_v<T, Member>) {
    if (!out.key.required && out.key.preset_text.empty())
      out.key.preset = Codec::encode(Struct{}.*member);
  }
  out.set = [member](Struct& target, const Value& value) { target.*member = Codec::decode(value); };
  return out;
}

// Returns the section with these fields.
template <typename Struct>
Section section(std::string name, std::string doc, const Fields<Struct>& fields) {
  Section out{std::move(name), std::move(doc), {}};
  for (const Field<Struct>& field : fields) out.keys.push_back(field.key);
  return out;
}

// Returns the struct with the table's values; absent keys keep their initialisers.
template <typename Struct>
Struct read(const std::string& section, const Fields<Struct>& fields, const Table& table) {
  Struct out;
  for (const Field<Struct>& field : fields)
    if (const Entry* entry =
            table.find(section.empty() ? field.key.name : section + "." + field.key.name))
      field.set(out, entry->value);
  return out;
}

}  // namespace lamina::config
