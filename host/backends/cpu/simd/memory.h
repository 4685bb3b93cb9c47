// Loads and stores of sixteen lanes: f32, and bf16 and f16, which are storage only (f32 in
// registers, rounded to nearest even when stored). Included by *_simd.cc only, like simd.h.
#pragma once

#include <cstring>

#include "backends/cpu/simd/simd.h"
#include "core/dtype.h"
#include "core/float16.h"

namespace lamina::cpu {
namespace {

// Bits of bf16 in the upper half of each lane, the lower half cleared.
LAMINA_SIMD Float round_to_bf16(Float x) {
  const Words u = bits_as<Words>(x);
  const Words odd = shift_right(u, 16) & splat<Words>(1);
  const Words rounded = (u + splat<Words>(0x7fff) + odd) & splat<Words>(0xffff0000u);
  const Words quiet = (u | splat<Words>(0x00400000u)) & splat<Words>(0xffff0000u);
  return select(x != x, bits_as<Float>(quiet), bits_as<Float>(rounded));
}

LAMINA_SIMD Float load(const float* p) { return load_raw<Float>(p); }
LAMINA_SIMD Float load(const bfloat16* p) {
  std::uint16_t const* bits = reinterpret_cast<const std::uint16_t*>(p);
  return bits_as<Float>(shift_left(convert<Words>(load_raw<Half>(bits)), 16));
}
LAMINA_SIMD Float load(const float16* p) {
#if defined(__AVX512F__)
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
#elif defined(__F16C__)
  return {{_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))},
          {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))}};
#else
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = to_float(p[i]);
  return load(lanes);
#endif
}

LAMINA_SIMD void store(float* p, Float x) { store_raw(p, x); }
// For values that are bf16 already, eg: from round_to_bf16.
LAMINA_SIMD void store_exact(bfloat16* p, Float x) {
  store_raw(reinterpret_cast<std::uint16_t*>(p), convert<Half>(shift_right(bits_as<Words>(x), 16)));
}
LAMINA_SIMD void store(bfloat16* p, Float x) {
  // round_to_bf16 without clearing the lower halves, which are not stored.
  const Words u = bits_as<Words>(x);
  const Words odd = shift_right(u, 16) & splat<Words>(1);
  const Words rounded = u + (odd + splat<Words>(0x7fff));
  const Words quiet = u | splat<Words>(0x00400000u);
  store_exact(p, select(x != x, bits_as<Float>(quiet), bits_as<Float>(rounded)));
}
LAMINA_SIMD void store(float16* p, Float x) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(x.lo.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(x.hi.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) p[i] = to_float16(lanes[i]);
#endif
}

// Returns the value after it is stored as T and loaded again.
template <typename T>
LAMINA_SIMD Float rounded_to(Float x) {
  if constexpr (sizeof(T) == 4)
    return x;
  else
    return round_to_bf16(x);
}

// The first n < 16 elements, the other lanes 0.
template <typename T>
LAMINA_SIMD Float load_partial(const T* p, std::int64_t n) {
  T lanes[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
template <typename T>
LAMINA_SIMD void store_partial(T* p, Float x, std::int64_t n) {
  T lanes[kLanes];
  store(lanes, x);
  for (std::int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

// Calls body(i, count) for i = 0, 16, ...: count is 16 except in the last, shorter step. With
// load_some and store_some below a body handles both.
template <typename Body>
LAMINA_SIMD void for_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}
template <typename T>
LAMINA_SIMD Float load_some(const T* p, int count) {
  return count == kLanes ? load(p) : load_partial(p, count);
}
template <typename T>
LAMINA_SIMD void store_some(T* p, Float x, int count) {
  if (count == kLanes)
    store(p, x);
  else
    store_partial(p, x, count);
}

// Rows of f32 or bf16 numbers whose type is known at run time, for kernels that compute in f32
// copies of them.

// Element i. dtype is f32 or bf16, here and below.
inline float number_at(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[i];
  return widen(static_cast<const std::uint16_t*>(data)[i]);
}

inline void set_number(void* data, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::f32)
    static_cast<float*>(data)[i] = value;
  else
    store_partial(static_cast<bfloat16*>(data) + i, splat(value), 1);
}

// to[0, n) = elements [first, first + n), to[n, padded) = 0.
inline void load_row(const void* data, DType dtype, std::int64_t first, std::int64_t n,
                     std::int64_t padded, float* to) {
  const auto copy = [&](const auto* from) {
    for_lanes(n, [&](std::int64_t i, int count) { store(to + i, load_some(from + i, count)); });
  };
  if (dtype == DType::f32)
    copy(static_cast<const float*>(data) + first);
  else
    copy(static_cast<const bfloat16*>(data) + first);
  for (std::int64_t i = (n + kLanes - 1) / kLanes * kLanes; i < padded; i += kLanes)
    store(to + i, splat(0.0f));
}

inline void store_row(void* data, DType dtype, std::int64_t first, std::int64_t n,
                      const float* from) {
  const auto copy = [&](auto* to) {
    for_lanes(n, [&](std::int64_t i, int count) { store_some(to + i, load(from + i), count); });
  };
  if (dtype == DType::f32)
    copy(static_cast<float*>(data) + first);
  else
    copy(static_cast<bfloat16*>(data) + first);
}

// Requests the line of an address, which need not be valid, for writing. Without -mprfchw compilers
// turn __builtin_prefetch(p, 1) into a request for reading: stores to a line that several cores
// have read then wait until the others have dropped it. CPUs with AVX2 have the instruction, or
// ignore it.
LAMINA_SIMD void prefetch_for_writing(const void* p) {
#if defined(__AVX2__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace
}  // namespace lamina::cpu
