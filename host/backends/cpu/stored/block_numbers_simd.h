// Numbers in the bytes of blocks. Internal to each file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/simd/memory.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

LAMINA_SIMD int byte_at(const std::byte* p) { return std::to_integer<int>(*p); }

LAMINA_SIMD float f16_at(const std::byte* p) {
  float16 value;
  __builtin_memcpy(&value, p, sizeof value);
#if defined(__F16C__)
  return _cvtsh_ss(value.bits);
#else
  return to_float(value);
#endif
}

LAMINA_SIMD float bf16_at(const std::byte* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return widen(bits);
}

// Number: bfloat16 or float16.
template <typename Number>
LAMINA_SIMD float number_at(const std::byte* p) {
  if constexpr (std::is_same_v<Number, bfloat16>)
    return bf16_at(p);
  else
    return f16_at(p);
}

// Scale i of a block of NVFP4: a number in f32 divides the scales of 16 values each.
LAMINA_SIMD float nvfp4_scale_at(const std::byte* p, int i) {
  float divisor;
  __builtin_memcpy(&divisor, p, sizeof divisor);
  return formats::kE4m3[static_cast<std::size_t>(byte_at(p + 4 + i))] / divisor;
}

}  // namespace
}  // namespace lamina::cpu
