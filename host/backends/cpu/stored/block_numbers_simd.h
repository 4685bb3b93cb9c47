// Numbers in the bytes of blocks. Internal to each file that includes it.
#pragma once

#include "backends/cpu/simd/memory.h"

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

}  // namespace
}  // namespace lamina::cpu
