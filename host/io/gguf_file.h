// Reads GGUF files: metadata, and tensors in place in the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "formats/block_formats.h"
#include "io/mapped_file.h"

namespace lamina::io {

// A tensor of a file. All views are borrowed from the file object.
struct GgufTensor {
  std::string_view name;
  DType dtype = DType::f32;                      // of plain values
  const formats::BlockFormat* format = nullptr;  // of values in blocks; null: plain values
  Shape shape;                                   // row-major: the reverse of the dims in the file
  std::span<const std::byte> bytes;              // little-endian
};

// A value of the metadata.
struct GgufValue {
  enum class Type : std::uint32_t {
    u8,
    i8,
    u16,
    i16,
    u32,
    i32,
    f32,
    boolean,
    string,
    array,
    u64,
    i64,
    f64
  };
  std::string_view key;
  Type type = Type::u8;  // of an element
  bool is_array = false;
  std::span<const std::byte> data;  // of numbers: one or an array, as in the file
  std::vector<std::string_view> strings;

  std::size_t size() const;  // number of elements
  // Returns a number of any type; booleans are 0 and 1. REQUIRES: numbers; i < size().
  double number(std::size_t i) const;
  // Returns nothing if it is not an integer in range.
  std::optional<std::int64_t> integer(std::size_t i) const;
};

// A whole file, checked when it is opened: counts, lengths and types against the remaining bytes,
// unique names and keys, tensors inside the data without overlap. Arrays do not nest. Every error
// is a UserError of class checkpoint with the file and the key or offset.
//   GgufFile file("model.gguf");
//   file.integer("general.alignment");
class GgufFile {
 public:
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::uint64_t file_bytes() const { return file_.bytes().size(); }

  const std::vector<GgufValue>& metadata() const { return metadata_; }
  // Returns null if the key is missing.
  const GgufValue* find(std::string_view key) const;
  // Returns the value of a key, or nothing. Errors: it has another type, or (text) is not UTF-8.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // Returns the elements of an array; empty if it is missing.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;
  // Throws the UserError "<file>: '<key>' <what>".
  [[noreturn]] void fail(std::string_view key, std::string what, std::string note = {}) const;

  // In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

 private:
  const GgufValue* find_one(std::string_view key) const;
  const GgufValue* find_array(std::string_view key) const;
  std::string_view checked(std::string_view key, std::string_view text) const;

  MappedFile file_;
  std::vector<GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> by_key_, by_name_;
};

}  // namespace lamina::io
