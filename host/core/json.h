// JSON documents, parsed once into a flat table and read through small handles whose errors give
// the file, the line and the key. Follows RFC 8259, with further restrictions: no duplicate keys,
// no numbers that overflow, limits on size and depth. An option accepts Python's infinite numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace lamina {

struct JsonOptions {
  ExitCode code = ExitCode::usage;                 // of every error about this document
  std::size_t max_bytes = std::size_t{128} << 20;  // at most 512 MiB
  int max_depth = 32;
  // Reads the bare words Infinity, -Infinity and NaN, which Python's json module writes, as reals.
  bool infinite_numbers = false;
  // Positions in errors: "FILE:LINE", or, if the document is a part of a binary file, "FILE: byte
  // N" counted from `first_byte`.
  bool positions_are_bytes = false;
  std::uint64_t first_byte = 0;
  // "line" or "text": the document is that part of a file. Its name gives the whole position, so no
  // line is added, and bytes are counted within the part.
  std::string_view part = {};
};

class JsonValue;

// Owns the text and its table. Moving it keeps handles valid; destroying it does not.
class JsonDocument {
 public:
  // Parses `text`; `file` is its name in errors.
  static JsonDocument parse(std::string text, std::string file, const JsonOptions& options = {});
  static JsonDocument read(const std::string& path, const JsonOptions& options = {});

  JsonValue root() const;
  // Returns a document whose root is that value of this one; they share text and table.
  JsonDocument part(const JsonValue& value) const;

 private:
  friend class JsonValue;
  struct Data;
  JsonDocument(std::shared_ptr<const Data> data, std::uint32_t root)
      : data_(std::move(data)), root_(root) {}
  std::shared_ptr<const Data> data_;
  std::uint32_t root_;
};

enum class JsonKind : std::uint8_t {
  null,
  boolean,
  integer,
  unsigned_integer,
  real,
  string,
  array,
  object
};

// "Infinity", "-Infinity" or "NaN", as Python's json module writes them. REQUIRES: not finite.
std::string_view infinite_number(double value);

// One value of a document, or nothing (the result of find() for an absent key).
//   JsonValue rope = config.find("rope_scaling");
//   double factor = rope ? rope.at("factor").as_double() : 1.0;
class JsonValue {
 public:
  JsonValue() = default;
  explicit operator bool() const { return data_ != nullptr; }

  JsonKind kind() const;
  bool is_null() const { return kind() == JsonKind::null; }
  bool is_bool() const { return kind() == JsonKind::boolean; }
  bool is_string() const { return kind() == JsonKind::string; }
  bool is_array() const { return kind() == JsonKind::array; }
  bool is_object() const { return kind() == JsonKind::object; }
  bool is_integer() const {
    return kind() == JsonKind::integer || kind() == JsonKind::unsigned_integer;
  }
  bool is_number() const { return is_integer() || kind() == JsonKind::real; }

  // Returns the value as that type; a UserError with file, line and path if it has another type.
  bool as_bool() const;
  std::int64_t as_int64() const;    // 2.0 is not an integer
  std::uint64_t as_uint64() const;  // nor is -0
  double as_double() const;         // any number
  // The text of a finite number, borrowed from the document.
  std::string_view number_text() const;
  // The text of a number without fraction and exponent that is a real only because it has more than
  // 64 bits or is -0; empty for others. Borrowed from the document.
  std::string_view integer_digits() const;
  std::string_view as_string() const;  // borrowed from the document

  // Elements of an array, members of an object.
  std::size_t size() const;
  // Returns the member, or nothing; an error if the value is not an object. Linear in the members.
  JsonValue find(std::string_view key) const;
  // Returns the member; an error if it is missing.
  JsonValue at(std::string_view key) const;
  // Returns the n-th element of an array, from 0; an error if there are fewer. Linear in n.
  JsonValue element(std::size_t n) const;

  class Elements;
  class Members;
  // In document order. An error if the value is not an array (elements) or an object (members).
  Elements elements() const;
  Members members() const;

  // "model.merges[3]"; "" for the root.
  std::string path() const;
  // "config.json:12"
  std::string where() const;
  // Throws the UserError "<where>: <path quoted> <what>" with `notes` below it.
  [[noreturn]] void fail(std::string what, std::vector<std::string> notes = {}) const;
  // Describes the value for a message: "\"abc\"", "12", "an array of 3".
  std::string describe() const;

 private:
  friend class JsonDocument;
  JsonValue(const JsonDocument::Data* data, std::uint32_t node) : data_(data), node_(node) {}
  [[noreturn]] void wrong_kind(std::string_view expected) const;
  std::uint32_t next() const;
  std::string_view string() const;

  const JsonDocument::Data* data_ = nullptr;
  std::uint32_t node_ = 0;
};

class JsonValue::Elements {
 public:
  class Iterator {
   public:
    explicit Iterator(JsonValue at) : at_(at) {}
    JsonValue operator*() const { return at_; }
    Iterator& operator++() {
      at_.node_ = at_.next();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_.node_ != other.at_.node_; }

   private:
    JsonValue at_;
  };
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(last_); }

 private:
  friend class JsonValue;
  Elements(JsonValue first, JsonValue last) : first_(first), last_(last) {}
  JsonValue first_, last_;
};

class JsonValue::Members {
 public:
  struct Member {
    std::string_view key;
    JsonValue value;
  };
  class Iterator {
   public:
    explicit Iterator(JsonValue key) : key_(key) {}
    Member operator*() const { return {key_.string(), JsonValue(key_.data_, key_.node_ + 1)}; }
    Iterator& operator++() {
      key_.node_ = JsonValue(key_.data_, key_.node_ + 1).next();
      return *this;
    }
    bool operator!=(const Iterator& other) const { return key_.node_ != other.key_.node_; }

   private:
    JsonValue key_;
  };
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(last_); }

 private:
  friend class JsonValue;
  Members(JsonValue first, JsonValue last) : first_(first), last_(last) {}
  JsonValue first_, last_;
};

}  // namespace lamina
