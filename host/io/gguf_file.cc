#include "io/gguf_file.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "io/gguf_reader.h"

namespace lamina::io {
namespace {

using Type = GgufValue::Type;

bool is_number(Type type) { return type != Type::string && type != Type::array; }

// Calls `use` with element i in its stored type.
template <typename Use>
auto with_number(const GgufValue& value, std::size_t i, const Use& use) {
  const auto as = [&]<typename T>(T element) {
    std::memcpy(&element, value.data.data() + i * sizeof element, sizeof element);
    return use(element);
  };
  switch (value.type) {
    case Type::u8:
    case Type::boolean:
      return as(std::uint8_t{});
    case Type::i8:
      return as(std::int8_t{});
    case Type::u16:
      return as(std::uint16_t{});
    case Type::i16:
      return as(std::int16_t{});
    case Type::u32:
      return as(std::uint32_t{});
    case Type::i32:
      return as(std::int32_t{});
    case Type::u64:
      return as(std::uint64_t{});
    case Type::i64:
      return as(std::int64_t{});
    case Type::f32:
      return as(float{});
    default:
      return as(double{});
  }
}

}  // namespace

std::size_t GgufValue::size() const {
  return is_number(type) ? data.size() / gguf_number_bytes(type) : strings.size();
}

double GgufValue::number(std::size_t i) const {
  LAMINA_ASSERT(is_number(type) && i < size());
  return with_number(*this, i, [](auto v) { return static_cast<double>(v); });
}

std::optional<std::int64_t> GgufValue::integer(std::size_t i) const {
  LAMINA_ASSERT(is_number(type) && i < size());
  return with_number(*this, i, []<typename T>(T v) -> std::optional<std::int64_t> {
    if constexpr (std::is_floating_point_v<T>)
      return std::nullopt;
    else
      return std::in_range<std::int64_t>(v) ? std::optional(static_cast<std::int64_t>(v))
                                            : std::nullopt;
  });
}

GgufFile::GgufFile(const std::string& path) : file_(path) {
  MappedFile::large_pages(file_.bytes());
  read_gguf(file_, metadata_, tensors_);
  for (std::size_t i = 0; i < metadata_.size(); ++i)
    if (!by_key_.emplace(metadata_[i].key, i).second)
      fail(metadata_[i].key, "appears twice; every key must be unique");
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!by_name_.emplace(tensors_[i].name, i).second)
      user_error(ExitCode::checkpoint, path,
                 "tensor '{}' appears twice; every tensor must be "
                 "unique",
                 printable(tensors_[i].name));
}

void GgufFile::fail(std::string_view key, std::string what, std::string note) const {
  ErrorText error{path(), fmt::format("'{}' {}", printable(key), what), {}};
  if (!note.empty()) error.notes.push_back(std::move(note));
  throw UserError(ExitCode::checkpoint, std::move(error));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &metadata_[found->second];
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue* GgufFile::find_one(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value && value->is_array)
    fail(key, fmt::format("is a list of {}; expected one value", value->size()));
  return value;
}

const GgufValue* GgufFile::find_array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value && !value->is_array) fail(key, "is one value; expected a list");
  return value;
}

std::string_view GgufFile::checked(std::string_view key, std::string_view text) const {
  if (find_invalid_utf8(text) != text.npos)
    fail(key, fmt::format("contains '{}', which is not UTF-8", printable(text, 40)));
  return text;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find_one(key);
  if (!value) return std::nullopt;
  const auto number = is_number(value->type) ? value->integer(0) : std::nullopt;
  if (!number) fail(key, "is not a 64-bit integer");
  return number;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find_one(key);
  if (!value) return std::nullopt;
  if (!is_number(value->type)) fail(key, "is a string; expected a number");
  const double number = value->number(0);
  if (!std::isfinite(number)) fail(key, fmt::format("is {}; expected a finite number", number));
  return number;
}

std::optional<bool> GgufFile::flag(std::string_view key) const {
  const GgufValue* value = find_one(key);
  if (!value) return std::nullopt;
  if (value->type != Type::boolean) fail(key, "is not a boolean");
  return value->number(0) != 0;
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find_one(key);
  if (!value) return std::nullopt;
  if (value->type != Type::string) fail(key, "is not a string");
  return checked(key, value->strings.front());
}

std::vector<std::string_view> GgufFile::texts(std::string_view key) const {
  const GgufValue* value = find_array(key);
  if (!value) return {};
  if (value->type != Type::string) fail(key, "is not a list of strings");
  for (std::size_t i = 0; i < value->strings.size(); ++i)
    if (find_invalid_utf8(value->strings[i]) != std::string_view::npos)
      checked(fmt::format("{}[{}]", key, i), value->strings[i]);
  return value->strings;
}

std::vector<std::int64_t> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find_array(key);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; value && i < value->size(); ++i) {
    const auto number = is_number(value->type) ? value->integer(i) : std::nullopt;
    if (!number) fail(key, "is not a list of 64-bit integers");
    out.push_back(*number);
  }
  return out;
}

std::vector<float> GgufFile::floats(std::string_view key) const {
  const GgufValue* value = find_array(key);
  std::vector<float> out;
  for (std::size_t i = 0; value && i < value->size(); ++i) {
    if (!is_number(value->type)) fail(key, "is not a list of numbers");
    out.push_back(static_cast<float>(value->number(i)));
  }
  return out;
}

}  // namespace lamina::io
