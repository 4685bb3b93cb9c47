// Copies structs of a plugin into our values, and checks the rules of abi.h: struct sizes, zero
// bytes beyond the known part, spans, strings. Internal to registry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"
#include "core/dtype.h"
#include "core/error.h"
#include "lamina/abi.h"
#include "lamina/ext/auxiliary.h"
#include "lamina/ext/custom_ops.h"
#include "lamina/ext/draft/custom_ops_gpu.h"
#include "lamina/ext/mtp.h"
#include "lamina/ext/time_region.h"
#include "lamina/names.h"

namespace lamina::registry::abi {

// A rule of abi.h is broken. Never leaves the registry: callers that know the plugin add its name.
class ContractError : public std::runtime_error {
 public:
  ContractError(lamina_status_t status, const std::string& what)
      : std::runtime_error(what), status_(status) {}
  lamina_status_t status() const { return status_; }

 private:
  lamina_status_t status_;
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw ContractError(LAMINA_ERROR_ARGUMENT, fmt::format(format, std::forward<Args>(args)...));
}

// Minimum size of a T by abi.h, for plugins of any age.
template <typename T>
inline constexpr std::uint32_t kMinBytes = 0;
#define LAMINA_MIN_BYTES(type, bytes) \
  template <>                         \
  inline constexpr std::uint32_t kMinBytes<type> = bytes;
LAMINA_GROWABLE(LAMINA_MIN_BYTES)
LAMINA_AUXILIARY_GROWABLE(LAMINA_MIN_BYTES)
LAMINA_CUSTOM_OPS_GROWABLE(LAMINA_MIN_BYTES)
LAMINA_CUSTOM_OPS_GPU_GROWABLE(LAMINA_MIN_BYTES)
LAMINA_MTP_GROWABLE(LAMINA_MIN_BYTES)
LAMINA_TIME_REGION_GROWABLE(LAMINA_MIN_BYTES)
#undef LAMINA_MIN_BYTES

// Sizes of a growable struct: the minimum that any plugin provides, and the size that this host
// knows.
struct StructBytes {
  std::uint32_t min, known;
};
template <typename T>
inline constexpr StructBytes kStructBytes{kMinBytes<T>, sizeof(T)};

namespace detail {
// Checks the size that a plugin gives for its struct.
void check_size(std::uint32_t size, std::uint32_t min, std::string_view what);
// Copies the known part of the struct at `from`, whose size is at `size_at`, to `to`; `what` is its
// name in messages.
void copy(void* to, const void* from, StructBytes bytes, std::size_t size_at,
          std::string_view what);
// Returns element i of a span of growable structs.
const void* element(const lamina_span_t& span, std::uint32_t i, std::string_view what);
// Checks a span of elements of at least (or, if `frozen`, exactly) `min_bytes`.
void check(const lamina_span_t& span, std::uint32_t min_bytes, bool frozen, std::string_view what);
}  // namespace detail

// Padding must be zero, so that a later version can give it a meaning.
template <typename T>
void check_padding(const T& value, std::string_view what) {
  std::uint32_t padding = 0;
  if constexpr (requires { value._pad0; }) padding |= value._pad0;
  if constexpr (requires { value._pad1; }) padding |= value._pad1;
  if (padding != 0)
    refuse("{} has padding that is not zero ({:#x}); clear the struct before setting its fields",
           what, padding);
}

// Copies a growable struct, which begins with its size. Fields that an older plugin does not have
// are zero; bytes beyond the known part and padding must be zero. Throws ContractError.
template <typename T>
T copy(const T* from, std::string_view what) {
  static_assert(kMinBytes<T> > 0, "not in LAMINA_GROWABLE");
  T out{};
  detail::copy(&out, from, kStructBytes<T>, offsetof(T, size), what);
  check_padding(out, what);
  return out;
}

// Returns pointers to the members of a span of growable structs, to be copied with copy().
template <typename T>
std::vector<const T*> elements(const lamina_span_t& span, std::string_view what) {
  detail::check(span, kMinBytes<T>, false, what);
  std::vector<const T*> out;
  for (std::uint32_t i = 0; i < span.count; ++i)
    out.push_back(static_cast<const T*>(detail::element(span, i, what)));
  return out;
}

template <typename T>
std::vector<T> copies(const lamina_span_t& span, std::string_view what) {
  std::vector<T> out;
  for (const T* from : elements<T>(span, what)) out.push_back(copy(from, what));
  return out;
}

// Writes `from` into the plugin's struct at `to`, which contains its size: as much as fits, and
// zeros after it for fields that a newer plugin knows.
template <typename T>
void write(const T& from, T* to, std::string_view what) {
  if (to == nullptr) refuse("{} is missing", what);
  const std::uint32_t size = to->size;
  detail::check_size(size, kMinBytes<T>, what);
  const std::size_t known = std::min<std::size_t>(size, sizeof(T));
  std::memcpy(static_cast<void*>(to), &from, known);
  std::memset(reinterpret_cast<unsigned char*>(to) + known, 0, size - known);
  to->size = size;
}

// Returns the members of a span of numbers or frozen structs.
template <typename T>
std::vector<T> plain(const lamina_span_t& span, std::string_view what) {
  detail::check(span, sizeof(T), true, what);
  std::vector<T> out(span.count);
  if (span.count > 0) std::memcpy(out.data(), span.ptr, std::size_t{span.count} * sizeof(T));
  return out;
}

// Returns UTF-8 of at most 64 KiB, without control characters.
std::string text(const lamina_str_t& from, std::string_view what);
std::vector<std::string> texts(const lamina_span_t& from, std::string_view what);
// Returns a name accepted by is_plain_name(); `path`: also several names joined with dots.
std::string name(const lamina_str_t& from, std::string_view what);

// Returns nothing for kind 0.
std::optional<config::Value> value(const lamina_value_t& from, std::string_view what);

// Returns nothing for 0, else the element type. Throws for unknown numbers.
std::optional<DType> dtype(std::uint32_t from, std::string_view what);
std::uint32_t dtype_number(DType dtype);  // 0 for types without a number in the contract

// Returns "an integer", ... for a LAMINA_KIND_*.
std::string_view kind_name(std::uint32_t kind);

// Returns "argument", "shape", ... for a LAMINA_ERROR_*.
std::string_view status_name(lamina_status_t status);

inline lamina_str_t str(std::string_view text) { return {text.data(), text.size()}; }

// Returns a source path without the folders of the build machine: "plugins/x/model.cc" or, if there
// is no folder "plugins", the file name.
std::string shown_file(std::string_view path);

// The source location of a plugin's call, if known.
struct Where {
  std::string file;
  std::uint32_t line = 0;
};
Where where(const lamina_where_t* at);

// Returns whether a value has kind `kind` (a LAMINA_KIND_*); an integer is also a number.
bool has_kind(const config::Value& value, std::uint32_t kind);

// Returns the value with its integers as numbers, if `kind` is numbers or a list of them.
config::Value in_kind(config::Value value, std::uint32_t kind);

// Owns the memory behind a lamina_value_t. Not movable: the value points into it.
class StoredValue {
 public:
  // REQUIRES: has_kind(value, kind).
  StoredValue(const config::Value& value, std::uint32_t kind);
  StoredValue(const StoredValue&) = delete;
  StoredValue& operator=(const StoredValue&) = delete;
  const lamina_value_t& get() const { return value_; }

 private:
  lamina_value_t value_{};
  std::string text_;
  std::vector<std::int64_t> integers_;
  std::vector<double> numbers_;
  std::vector<std::string> strings_;
  std::vector<lamina_str_t> views_;
};

}  // namespace lamina::registry::abi
