// Philox, and uniform numbers and dropout from it, for one instruction set.
#include "backends/cpu/random/random.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

struct Words4 {
  Words w[4];
};

// Both halves of the 64-bit products a * m.
struct Product {
  Words high, low;
};
LAMINA_SIMD Product multiply(Words a, std::uint32_t m) {
#if defined(__AVX512F__)
  const __m512i x = reinterpret_cast<__m512i>(a.raw);
  const __m512i factor = _mm512_set1_epi64(m);
  const __m512i even = _mm512_mul_epu32(x, factor);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), factor);
  const __m512i high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  const __m512i low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
  return {{reinterpret_cast<Words::Raw>(high)}, {reinterpret_cast<Words::Raw>(low)}};
#else
  std::uint32_t lanes[kLanes];
  store_raw(lanes, a);
  for (std::uint32_t& lane : lanes)
    lane = static_cast<std::uint32_t>((static_cast<std::uint64_t>(lane) * m) >> 32);
  return {load_raw<Words>(lanes), a * splat<Words>(m)};
#endif
}

// Blocks 16 group .. 16 group + 15 of a stream.
LAMINA_SIMD Words4 philox(RandomStream s, std::int64_t group) {
  const std::uint64_t block = static_cast<std::uint64_t>(group) * kLanes;
  Words4 c = {{bits_as<Words>(lane_numbers()) + splat<Words>(static_cast<std::uint32_t>(block)),
               splat<Words>(static_cast<std::uint32_t>(block >> 32)),
               splat<Words>(static_cast<std::uint32_t>(s.stream)),
               splat<Words>(static_cast<std::uint32_t>(s.stream >> 32))}};
  std::uint32_t k0 = static_cast<std::uint32_t>(s.seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(s.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(c.w[0], 0xd2511f53u), p1 = multiply(c.w[2], 0xcd9e8d57u);
    c = {
        {p1.high ^ c.w[1] ^ splat<Words>(k0), p1.low, p0.high ^ c.w[3] ^ splat<Words>(k1), p0.low}};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

void bits_of(RandomStream s, std::int64_t group, std::int64_t num_groups, std::uint32_t* bits) {
  for (std::int64_t g = 0; g < num_groups; ++g) {
    const Words4 words = philox(s, group + g);
    for (int k = 0; k < 4; ++k) store_raw(bits + g * kRandomGroup + k * kLanes, words.w[k]);
  }
}

// [0, 1) with 24 bits.
LAMINA_SIMD Float unit(Words w) {
  return convert<Float>(bits_as<Int>(shift_right(w, 8))) * splat(0x1p-24f);
}

template <typename T>
void fill_numbers(RandomStream s, float scale, float shift, T* y, std::int64_t group,
                  std::int64_t n) {
  for (std::int64_t first = 0; first < n; first += kRandomGroup, ++group) {
    const Words4 words = philox(s, group);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = first + k * kLanes;
      if (i >= n) break;
      // Does not use fma, so that the numbers are the same on every machine.
      store_some(y + i, unit(words.w[k]) * splat(scale) + splat(shift),
                 n - i < kLanes ? static_cast<int>(n - i) : kLanes);
    }
  }
}

void fill_uniform(RandomStream s, float scale, float shift, void* y, DType dtype,
                  std::int64_t group, std::int64_t n) {
  if (dtype == DType::f32) return fill_numbers(s, scale, shift, static_cast<float*>(y), group, n);
  fill_numbers(s, scale, shift, static_cast<bfloat16*>(y), group, n);
}

// A dropped infinity is 0 as well, not NaN.
template <typename T>
LAMINA_SIMD void drop_lanes(Int keep, Float scale, const T* x, T* y, int count) {
  store_some(y, select(keep, load_some(x, count) * scale, splat(0.0f)), count);
}

template <typename T>
void drop(RandomStream s, std::uint32_t threshold, float scale, const T* x, T* y,
          std::int64_t group, std::int64_t skip, std::int64_t n) {
  const Words thresholds = splat<Words>(threshold);
  for (std::int64_t i = 0; i < n; ++group, skip = 0) {
    if (skip == 0 && n - i >= kRandomGroup) {
      const Words4 words = philox(s, group);
      for (int k = 0; k < 4; ++k, i += kLanes)
        drop_lanes(words.w[k] >= thresholds, splat(scale), x + i, y + i, kLanes);
      continue;
    }
    std::uint32_t bits[2 * kRandomGroup];  // read from any number on, by whole vectors
    bits_of(s, group, 1, bits);
    const std::int64_t count = n - i < kRandomGroup - skip ? n - i : kRandomGroup - skip;
    for_lanes(count, [&](std::int64_t k, int lanes) {
      drop_lanes(load_raw<Words>(bits + skip + k) >= thresholds, splat(scale), x + i + k, y + i + k,
                 lanes);
    });
    i += count;
  }
}

void dropout_elements(RandomStream s, std::uint32_t threshold, float scale, const void* x, void* y,
                      DType dtype, std::int64_t group, std::int64_t skip, std::int64_t n) {
  if (dtype == DType::f32)
    return drop(s, threshold, scale, static_cast<const float*>(x), static_cast<float*>(y), group,
                skip, n);
  drop(s, threshold, scale, static_cast<const bfloat16*>(x), static_cast<bfloat16*>(y), group, skip,
       n);
}

constexpr RandomFunctions kFunctions = {
    .bits = bits_of, .fill_uniform = fill_uniform, .dropout = dropout_elements};

}  // namespace

constinit const RandomFunctions RandomFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
