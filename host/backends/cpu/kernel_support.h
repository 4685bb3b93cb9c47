// Functions for kernels of this folder: dtypes as C++ types, and copies with all threads.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/float16.h"
#include "ops/operands.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"
#include "runtime/kernel_checks.h"

namespace lamina::cpu {

// Numbers in memory and the type of arithmetic on them.
template <typename T>
struct Number {
  using Wide = std::int64_t;
  static Wide load(T x) { return x; }
  static T store(Wide x) { return static_cast<T>(x); }
};
template <>
struct Number<float> {
  using Wide = float;
  static Wide load(float x) { return x; }
  static float store(Wide x) { return x; }
};
template <>
struct Number<double> {
  using Wide = double;
  static Wide load(double x) { return x; }
  static double store(Wide x) { return x; }
};
template <>
struct Number<bfloat16> {
  using Wide = float;
  static Wide load(bfloat16 x) { return to_float(x); }
  static bfloat16 store(Wide x) { return to_bfloat16(x); }
};
template <>
struct Number<float16> {
  using Wide = float;
  static Wide load(float16 x) { return to_float(x); }
  static float16 store(Wide x) { return to_float16(x); }
};

// Calls fn(T{}) with the C++ type of a floating dtype. REQUIRES: is_floating(dtype).
template <typename Fn>
auto with_floating(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::f32:
      return fn(float{});
    case DType::bf16:
      return fn(bfloat16{});
    case DType::f16:
      return fn(float16{});
    default:
      LAMINA_ASSERT(dtype == DType::f64);
      return fn(double{});
  }
}

// Likewise for every dtype that has arithmetic.
template <typename Fn>
auto with_number(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::i32:
      return fn(std::int32_t{});
    case DType::i64:
      return fn(std::int64_t{});
    default:
      return with_floating(dtype, fn);
  }
}

inline std::byte* at_byte(void* base, std::int64_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
inline const std::byte* at_byte(const void* base, std::int64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

// Bytes per thread for which waking it is worthwhile.
inline constexpr std::int64_t kMinCopyBytes = 64 << 10;

// A memcpy with all threads; `to` and `from` are equal or do not overlap.
inline void parallel_copy(void* to, const void* from, std::int64_t bytes) {
  if (to == from) return;
  parallel_ranges(bytes, kMinCopyBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(at_byte(to, begin), at_byte(from, begin), static_cast<std::size_t>(end - begin));
  });
}

// Sets bytes to zero with all threads.
inline void parallel_zero(void* to, std::int64_t bytes) {
  parallel_ranges(bytes, kMinCopyBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memset(at_byte(to, begin), 0, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace lamina::cpu
