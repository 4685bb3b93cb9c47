// Element types of tensors, and the one table of their sizes and names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lamina {

// Values are stable: they are part of the plugin ABI and of manifests.
enum class DType : std::uint8_t {
  f32 = 1,
  bf16 = 2,
  f16 = 3,
  f64 = 4,
  i32 = 5,
  i64 = 6,
  u8 = 7,
  i8 = 8,
  boolean = 9,
  f8_e4m3 = 10,
  f8_e5m2 = 11,
  f8_e8m0 = 12,
  i16 = 13,
  u16 = 14,
  u32 = 15,
  u64 = 16,
};

// Returns the bytes of one element.
int size_bytes(DType dtype);

// The short name used in shapes and messages, eg: "bf16".
std::string_view name(DType dtype);

// The name that run files use, eg: "bfloat16".
std::string_view long_name(DType dtype);

// Accepts the short name and the long name of run files ("bfloat16", "float32").
std::optional<DType> parse_dtype(std::string_view text);

// Returns true for f64, f32, bf16 and f16: the types that arithmetic ops accept.
bool is_floating(DType dtype);

// Returns the accumulation type for sums, norms and other long computations on `dtype`: f32, but
// f64 for f64.
constexpr DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace lamina
