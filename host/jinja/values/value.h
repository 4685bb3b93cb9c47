// The values of templates: Python's, as far as templates see them. Values do not change once made,
// but for namespaces and the positions of loops, cyclers and generators.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/values/budget.h"
#include "jinja/values/text.h"

namespace lamina::jinja {

// A template that cannot go on. Whoever knows the place in the template adds it.
struct Failure : std::exception {
  explicit Failure(std::string text) : message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}
[[noreturn]] inline void too_large() { fail("an integer needs more than 127 bits"); }

// What a value refers to. `depth`: how many objects are inside each other at most; bounded, so that
// printing, comparing and destroying need no more stack than there is.
struct Object {
  Object(std::size_t num_bytes, unsigned depth);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const unsigned depth;

 protected:
  void hold(std::size_t num_bytes);  // more, that no Counted container holds

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
  generator,  // what most filters of lists return: can be read once, has no length
  space,      // namespace()
  callable,
  loop,
  cycler,
  joiner,
};

class Value {
 public:
  Value() = default;  // undefined, without a word why
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool flag);
  static Value integer(Integer number);
  static Value real(double number);
  static Value string(Text text, bool safe = false);  // safe: markup, which is not escaped again
  static Value string(std::string_view utf8) { return string(to_text(utf8)); }
  static Value bytes(std::string bytes);
  static Value list(Vector<Value> items);
  static Value tuple(Vector<Value> items);
  static Value generator(Vector<Value> items);
  static Value undefined(std::string why);
  template <typename T>
  static Value object(Kind kind, std::shared_ptr<T> object) {
    Value value(kind);
    value.object_ = std::move(object);
    return value;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const {
    return kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::boolean;
  }
  bool is_whole() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }

  // REQUIRES: of that kind.
  bool flag() const { return number_.integer != 0; }
  Integer whole() const { return number_.integer; }  // of a boolean, too
  double real() const { return kind_ == Kind::real ? number_.real : double(number_.integer); }
  const Text& text() const;
  bool is_safe() const;  // false for what is no string
  template <typename T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& object() const { return object_; }
  const std::string& why_undefined() const;
  unsigned depth() const { return object_ ? object_->depth : 0; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::undefined;
  union {
    Integer integer = 0;
    double real;
  } number_;
  std::shared_ptr<Object> object_;
};

struct String : Object {
  String(Text t, bool is_safe);  // a Failure for more than kMaxText characters
  Text text;
  bool safe;
};
struct Bytes : Object {
  explicit Bytes(std::string b) : Object(b.size(), 0), bytes(std::move(b)) {}
  std::string bytes;
};
struct Why : Object {
  explicit Why(std::string t) : Object(t.size(), 0), text(std::move(t)) {}
  std::string text;
};

unsigned deepest(const Vector<Value>& items);

// Lists and tuples; views and generators, too. A generator that was read is empty.
struct List : Object {
  explicit List(Vector<Value> values, std::string view_name = {})
      : Object(0, deepest(values) + 1), items(std::move(values)), name(std::move(view_name)) {}
  Vector<Value> items;
  std::string name;  // of a view: "dict_items"; of a tuple of groupby: "group"
};

struct Range : Object {
  Range(std::int64_t a, std::int64_t b, std::int64_t by, std::int64_t length)
      : Object(0, 0), start(a), stop(b), step(by), size(length) {}
  std::int64_t start, stop, step, size;
};

// In the order of insertion. Keys are numbers, strings, none and tuples of them.
class Dict : public Object {
 public:
  using Entry = std::pair<Value, Value>;
  explicit Dict(Vector<Entry> entries);  // of equal keys the last one's value counts
  const Vector<Entry>& entries() const { return entries_; }
  // Null if there is none; a Failure for a key that cannot be one.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view utf8_key) const;

 private:
  Vector<Entry> entries_;
  Vector<std::pair<std::uint64_t, std::uint32_t>> sorted_;  // by hash; empty where few
};
Value make_dict(Vector<Dict::Entry> entries);

// A Failure for what cannot be a key of a dict.
std::uint64_t hash(const Value& value);

bool truth(const Value& value);
// As "==" of Python: 1 == 1.0 == true.
bool equals(const Value& a, const Value& b);
// The same object, or an equal constant: "is" of Python.
bool same(const Value& a, const Value& b);
// "str", "int", "NoneType" ...
std::string_view type_name(const Value& value);

std::string format_integer(Integer number);
std::string format_real(double number);  // Python's repr()
Text str(const Value& value);
Text repr(const Value& value);

// The elements, characters or keys of a value: what a loop goes through. Reading a generator
// empties it.
Vector<Value> elements(const Value& value);
bool is_iterable(const Value& value);
// len(); a Failure for what has none.
std::size_t length(const Value& value);

}  // namespace lamina::jinja
