// The values of templates: Python's values, as templates see them. Values are immutable, except
// namespaces and the positions of loops, cyclers and generators.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/values/budget.h"
#include "jinja/values/text.h"

namespace lamina::jinja {

// An error in a template. A caller that knows the position in the template adds it.
struct TemplateFailure : std::exception {
  explicit TemplateFailure(std::string text) : message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateFailure(fmt::format(format, std::forward<Args>(args)...));
}
[[noreturn]] inline void too_large() { fail("an integer needs more than 127 bits"); }

// The data that a value refers to. `depth`: the greatest nesting of objects; it is bounded, so that
// printing, comparing and destroying do not overflow the stack.
struct Object {
  Object(std::size_t num_bytes, unsigned depth);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const unsigned depth;

 private:
  Budget* budget_;
  std::size_t num_bytes_;
};

__extension__ typedef __int128 Integer;

enum class Kind : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  bytes,
  list,
  tuple,
  dict,
  range,
  view,       // keys(), values() and items() of a dict
  generator,  // the result of most list filters: computed while it is read, once; has no length
  space,      // namespace()
  callable,
  loop,
  cycler,
  joiner,
};

class TemplateValue {
 public:
  TemplateValue() = default;  // undefined, without a reason
  static TemplateValue none() { return TemplateValue(Kind::none); }
  static TemplateValue boolean(bool flag);
  static TemplateValue integer(Integer number);
  static TemplateValue real(double number);
  static TemplateValue string(Text text,
                              bool safe = false);  // safe: markup, which is not escaped again
  static TemplateValue string(std::string_view utf8) { return string(to_text(utf8)); }
  static TemplateValue bytes(std::string bytes, bool given);
  static TemplateValue list(Vector<TemplateValue> items);
  static TemplateValue tuple(Vector<TemplateValue> items);
  static TemplateValue generator(Vector<TemplateValue> items);
  static TemplateValue generator(std::function<std::optional<TemplateValue>()> next,
                                 unsigned depth_of_parts);
  static TemplateValue undefined(std::string why);
  template <typename T>
  static TemplateValue object(Kind kind, std::shared_ptr<T> object) {
    TemplateValue value(kind);
    value.object_ = std::move(object);
    return value;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const {
    return kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::boolean;
  }
  bool is_whole() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }

  // REQUIRES: a value of that kind.
  bool flag() const { return number_.integer != 0; }
  Integer whole() const { return number_.integer; }  // also of a boolean
  double real() const { return kind_ == Kind::real ? number_.real : double(number_.integer); }
  const Text& text() const;
  bool is_safe() const;  // false for values that are not strings
  template <typename T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& object() const { return object_; }
  const std::string& why_undefined() const;
  unsigned depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit TemplateValue(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::undefined;
  union {
    Integer integer = 0;
    double real;
  } number_;
  std::shared_ptr<Object> object_;
};

struct String : Object {
  String(Text t, bool is_safe);  // throws Failure for more than kMaxText characters
  Text text;
  bool safe;
};
struct Bytes : Object {
  Bytes(std::string b, bool is_given) : Object(b.size(), 0), bytes(std::move(b)), given(is_given) {}
  std::string bytes;
  bool given;  // some of them came from outside
};
struct Why : Object {
  explicit Why(std::string t) : Object(t.size(), 0), text(std::move(t)) {}
  std::string text;
};

unsigned deepest(const Vector<TemplateValue>& items);
unsigned deepest(const Vector<std::pair<TemplateValue, TemplateValue>>& entries);

// Lists and tuples, also views.
struct ListObject : Object {
  explicit ListObject(Vector<TemplateValue> values, std::string view_name = {})
      : Object(0, deepest(values) + 1), items(std::move(values)), name(std::move(view_name)) {}
  Vector<TemplateValue> items;
  std::string name;  // for a view "dict_items"; for a tuple of groupby "group"
};

// Computes its elements one by one, when they are read.
class Generator : public Object {
 public:
  using Next = std::function<std::optional<TemplateValue>()>;  // nullopt: no more elements
  // `depth_of_parts`: the greatest of the values that `next` keeps, eg arguments of a filter.
  Generator(Next next, unsigned depth_of_parts)
      : Object(sizeof(Generator), depth_of_parts + 1), next_(std::move(next)) {}
  std::optional<TemplateValue> next();

 private:
  Next next_;
  bool runs_ = false;
};

struct Range : Object {
  Range(std::int64_t a, std::int64_t b, std::int64_t by, std::int64_t length)
      : Object(0, 0), start(a), stop(b), step(by), size(length) {}
  std::int64_t start, stop, step, size;
};

// In the order of insertion. Keys are numbers, strings, none and tuples of these.
class Dict : public Object {
 public:
  using Entry = std::pair<TemplateValue, TemplateValue>;
  explicit Dict(Vector<Entry> entries);  // the last value of equal keys counts
  const Vector<Entry>& entries() const { return entries_; }
  // Null if there is none; throws Failure for a value that cannot be a key.
  const TemplateValue* find(const TemplateValue& key) const;
  const TemplateValue* find(std::string_view utf8_key) const;

 private:
  Vector<Entry> entries_;
  Vector<std::pair<std::uint64_t, std::uint32_t>> sorted_;  // by hash; empty for few entries
};
TemplateValue make_dict(Vector<Dict::Entry> entries);

// Throws Failure for a value that cannot be a key of a dict.
std::uint64_t hash(const TemplateValue& value);

bool truth(const TemplateValue& value);
// Compares the exact values of two numbers; a NaN is unordered.
std::partial_ordering compare_numbers(const TemplateValue& a, const TemplateValue& b);
// Python's "==": 1 == 1.0 == true.
bool equals(const TemplateValue& a, const TemplateValue& b);
// Python's "is": the same object, or an equal constant.
bool same(const TemplateValue& a, const TemplateValue& b);
// "str", "int", "NoneType" ...
std::string_view type_name(const TemplateValue& value);

std::string format_integer(Integer number);
std::string format_real(double number);  // Python's repr()
Text str(const TemplateValue& value);
Text repr(const TemplateValue& value);
Text ascii(const TemplateValue& value);  // repr() with escapes for all other characters

// The elements, characters or keys of a value, which a loop visits. Reading a generator empties it.
Vector<TemplateValue> elements(const TemplateValue& value);
// The same one by one: a generator keeps the elements after the last one that was read.
class Elements {
 public:
  Elements() = default;  // none
  explicit Elements(const TemplateValue& value);
  std::optional<TemplateValue> next();

 private:
  TemplateValue of_;             // a list or a generator
  Vector<TemplateValue> items_;  // of other values
  std::size_t at_ = 0;
};
bool is_iterable(const TemplateValue& value);
// len(); throws Failure for values without a length.
std::size_t length(const TemplateValue& value);

}  // namespace lamina::jinja
