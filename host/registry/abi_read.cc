#include "registry/abi_read.h"

#include <algorithm>
#include <cmath>

#include "core/utf8.h"
#include "registry/manifest.h"

namespace lamina::registry::abi {
namespace {

constexpr std::uint32_t kMaxStructBytes = 1u << 16;
constexpr std::uint32_t kMaxElements = 1u << 20;
constexpr std::uint64_t kMaxTextBytes = 1u << 16;

constexpr std::pair<std::uint32_t, DType> kDTypes[] = {
    {LAMINA_DTYPE_F32, DType::f32},     {LAMINA_DTYPE_BF16, DType::bf16},
    {LAMINA_DTYPE_F16, DType::f16},     {LAMINA_DTYPE_F64, DType::f64},
    {LAMINA_DTYPE_I32, DType::i32},     {LAMINA_DTYPE_I64, DType::i64},
    {LAMINA_DTYPE_BOOL, DType::boolean}};

double finite(double number, std::string_view what) {
  if (std::isnan(number)) refuse("{} contains a NaN; expected numbers", what);
  return number;
}

template <typename T>
config::List list(const std::vector<T>& from) {
  config::List out;
  for (const T& item : from) out.emplace_back(item);
  return out;
}

}  // namespace

namespace detail {

void check_size(std::uint32_t size, std::uint32_t min, std::string_view what) {
  if (size < min) refuse("{} has size {}; it must be at least {}", what, size, min);
  if (size > kMaxStructBytes)
    refuse("{} has size {}; it must be at most {}", what, size, kMaxStructBytes);
}

void copy(void* to, const void* from, StructBytes sizes, std::size_t size_at,
          std::string_view what) {
  if (from == nullptr) refuse("{} is missing", what);
  const char* bytes = static_cast<const char*>(from);
  std::uint32_t size = 0;
  std::memcpy(&size, bytes + size_at, sizeof size);
  check_size(size, sizes.min, what);
  for (std::uint32_t at = sizes.known; at < size; ++at)
    if (bytes[at] != 0)
      throw ContractError(
          LAMINA_ERROR_ABI,
          fmt::format("{} sets byte {}, but this host knows {} bytes; a newer host is "
                      "required",
                      what, at, sizes.known));
  std::memcpy(to, from, std::min(size, sizes.known));
}

const void* element(const lamina_span_t& span, std::uint32_t i, std::string_view what) {
  const char* at = static_cast<const char*>(span.ptr) + std::size_t{i} * span.stride;
  std::uint32_t size = 0;
  std::memcpy(&size, at, sizeof size);
  if (size > span.stride)
    refuse("{}: element {} has size {}, but the next element is {} bytes further", what, i, size,
           span.stride);
  return at;
}

void check(const lamina_span_t& span, std::uint32_t min_bytes, bool frozen, std::string_view what) {
  if (span.count == 0) return;
  if (span.ptr == nullptr) refuse("{}: {} elements at a null pointer", what, span.count);
  if (span.count > kMaxElements)
    refuse("{}: {} elements; the maximum is {}", what, span.count, kMaxElements);
  if (frozen ? span.stride != min_bytes : span.stride < min_bytes)
    refuse("{}: elements of {} bytes; expected {}{}", what, span.stride, frozen ? "" : "at least ",
           min_bytes);
}

}  // namespace detail

std::string text(const lamina_str_t& from, std::string_view what) {
  if (from.len == 0) return "";
  if (from.ptr == nullptr) refuse("{} is a string of {} bytes at a null pointer", what, from.len);
  if (from.len > kMaxTextBytes)
    refuse("{} is a string of {} bytes; the maximum is {}", what, from.len, kMaxTextBytes);
  std::string out(from.ptr, from.len);
  if (find_invalid_utf8(out) != std::string_view::npos)
    refuse("{} is a string that is not UTF-8", what);
  if (const std::size_t at = find_control(out); at != out.npos)
    refuse("{} is a string with a control character, byte 0x{:02x}", what,
           static_cast<unsigned char>(out[at]));
  return out;
}

std::vector<std::string> texts(const lamina_span_t& from, std::string_view what) {
  std::vector<std::string> out;
  for (const lamina_str_t& item : plain<lamina_str_t>(from, what)) out.push_back(text(item, what));
  return out;
}

std::string name(const lamina_str_t& from, std::string_view what) {
  std::string out = text(from, what);
  if (!is_plain_name(out))
    refuse(
        "{} is \"{}\"; expected at most {} letters, digits, '_', '-' and '.', beginning with a "
        "letter",
        what, out, kMaxName);
  return out;
}

std::optional<config::Value> value(const lamina_value_t& from, std::string_view what) {
  check_padding(from, what);
  switch (from.type) {
    case 0:
      return std::nullopt;
    case LAMINA_KIND_INT:
      return config::Value(std::int64_t{from.v.i});
    case LAMINA_KIND_FLOAT:
      return config::Value(finite(from.v.f, what));
    case LAMINA_KIND_BOOL:
      if (from.v.i != 0 && from.v.i != 1)
        refuse("{} is the boolean {}; expected 0 or 1", what, from.v.i);
      return config::Value(from.v.i == 1);
    case LAMINA_KIND_STRING:
      return config::Value(text(from.v.s, what));
    case LAMINA_KIND_INT_LIST:
      return config::Value(list(plain<std::int64_t>(from.v.list, what)));
    case LAMINA_KIND_FLOAT_LIST: {
      const std::vector<double> numbers = plain<double>(from.v.list, what);
      for (double number : numbers) finite(number, what);
      return config::Value(list(numbers));
    }
    case LAMINA_KIND_STRING_LIST:
      return config::Value(list(texts(from.v.list, what)));
    default:
      refuse("{} has kind {}; expected 1 to 7", what, from.type);
  }
}

std::optional<DType> dtype(std::uint32_t from, std::string_view what) {
  if (from == 0) return std::nullopt;
  for (const auto& [number, type] : kDTypes)
    if (number == from) return type;
  refuse("{} has dtype {}; expected 1 to 7", what, from);
}

std::uint32_t dtype_number(DType dtype) {
  for (const auto& [number, type] : kDTypes)
    if (type == dtype) return number;
  return 0;
}

std::string_view kind_name(std::uint32_t kind) {
  static constexpr std::string_view kNames[] = {
      "nothing",  "an integer",         "a number",          "a boolean",
      "a string", "a list of integers", "a list of numbers", "a list of strings"};
  return kind < std::size(kNames) ? kNames[kind] : "a value of unknown kind";
}

std::string_view status_name(lamina_status_t status) {
  static constexpr std::string_view kNames[] = {
      "ok",    "argument", "shape",    "dtype", "config",    "unsupported", "not found",
      "state", "memory",   "internal", "abi",   "cancelled", "trace"};
  return status >= 0 && static_cast<std::size_t>(status) < std::size(kNames)
             ? kNames[static_cast<std::size_t>(status)]
             : "unknown";
}

std::string shown_file(std::string_view path) {
  if (!path.starts_with('/')) return std::string(path);
  constexpr std::string_view kFolder = "/plugins/";
  if (auto at = path.rfind(kFolder); at != path.npos) return std::string(path.substr(at + 1));
  if (auto at = path.rfind('/'); at != path.npos) return std::string(path.substr(at + 1));
  return std::string(path);
}

Where where(const lamina_where_t* at) {
  if (at == nullptr) return {};
  check_padding(*at, "a source location");
  return {shown_file(text(at->file, "a source location")), at->line};
}

bool has_kind(const config::Value& value, std::uint32_t kind) {
  const auto all = [&](std::uint32_t element) {
    const auto* items = value.get_if<config::List>();
    return items && std::all_of(items->begin(), items->end(),
                                [&](const config::Value& item) { return has_kind(item, element); });
  };
  switch (kind) {
    case LAMINA_KIND_INT:
      return value.get_if<std::int64_t>();
    case LAMINA_KIND_FLOAT:
      return value.get_if<double>() || value.get_if<std::int64_t>();
    case LAMINA_KIND_BOOL:
      return value.get_if<bool>();
    case LAMINA_KIND_STRING:
      return value.get_if<std::string>();
    case LAMINA_KIND_INT_LIST:
      return all(LAMINA_KIND_INT);
    case LAMINA_KIND_FLOAT_LIST:
      return all(LAMINA_KIND_FLOAT);
    case LAMINA_KIND_STRING_LIST:
      return all(LAMINA_KIND_STRING);
    default:
      return false;
  }
}

config::Value in_kind(config::Value value, std::uint32_t kind) {
  if (auto* items = std::get_if<config::List>(&value.data); items && kind == LAMINA_KIND_FLOAT_LIST)
    for (config::Value& item : *items) item = in_kind(std::move(item), LAMINA_KIND_FLOAT);
  const auto* integer = value.get_if<std::int64_t>();
  return integer && kind == LAMINA_KIND_FLOAT ? config::Value(static_cast<double>(*integer))
                                              : value;
}

StoredValue::StoredValue(const config::Value& value, std::uint32_t kind) {
  LAMINA_ASSERT(has_kind(value, kind));
  const auto number = [](const config::Value& v) {
    const auto* integer = v.get_if<std::int64_t>();
    return integer ? static_cast<double>(*integer) : *v.get_if<double>();
  };
  const auto set_list = [&](const auto& items) {
    value_.v.list = {items.data(), static_cast<std::uint32_t>(items.size()), sizeof items[0]};
  };
  value_.type = kind;
  if (const auto* items = value.get_if<config::List>()) {
    for (const config::Value& item : *items) {
      if (kind == LAMINA_KIND_INT_LIST) integers_.push_back(*item.get_if<std::int64_t>());
      if (kind == LAMINA_KIND_FLOAT_LIST) numbers_.push_back(number(item));
      if (kind == LAMINA_KIND_STRING_LIST) strings_.push_back(*item.get_if<std::string>());
    }
    for (const std::string& s : strings_) views_.push_back(str(s));
    if (kind == LAMINA_KIND_INT_LIST) set_list(integers_);
    if (kind == LAMINA_KIND_FLOAT_LIST) set_list(numbers_);
    if (kind == LAMINA_KIND_STRING_LIST) set_list(views_);
  } else if (kind == LAMINA_KIND_STRING) {
    text_ = *value.get_if<std::string>();
    value_.v.s = str(text_);
  } else if (kind == LAMINA_KIND_FLOAT) {
    value_.v.f = number(value);
  } else if (kind == LAMINA_KIND_BOOL) {
    value_.v.i = *value.get_if<bool>();
  } else {
    value_.v.i = *value.get_if<std::int64_t>();
  }
}

}  // namespace lamina::registry::abi
