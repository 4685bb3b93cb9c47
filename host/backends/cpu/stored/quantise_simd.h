// Prepares rows of activations in each form of prepared_rows.h. Internal to each file that
// includes it.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/simd/memory.h"
#include "backends/cpu/stored/prepared_rows.h"

namespace lamina::cpu {
namespace {

constexpr float kLeast = 0x1p-100f;  // smaller blocks are zeros

// Returns the bits of the largest magnitude of kActivationBlock values. Bits are ordered like
// magnitudes, with infinities and NaN last.
LAMINA_SIMD int largest_magnitude(const std::uint16_t* x) {
#if defined(__AVX512F__)
  static_assert(kActivationBlock == 32);
  const __m512i sizes = _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi16(0x7fff));
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(sizes), _mm512_extracti64x4_epi64(sizes, 1));
  const __m128i quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  // The machine has an instruction for the smallest of eight words only.
  const __m128i top = _mm_set1_epi16(0x7fff);
  return 0x7fff - _mm_extract_epi16(_mm_minpos_epu16(_mm_sub_epi16(top, quarter)), 0);
#else
  const Words first = convert<Words>(load_raw<Half>(x));
  const Words second = convert<Words>(load_raw<Half>(x + kLanes));
  const Words size = splat<Words>(0x7fff);
  return max_lanes(max(bits_as<Int>(first & size), bits_as<Int>(second & size)));
#endif
}

LAMINA_SIMD void quantise_block(const std::uint16_t* x, std::int8_t* codes, float* scale) {
  const int largest = largest_magnitude(x);
  const float magnitude = widen(static_cast<std::uint16_t>(largest));
  const bool is_finite = largest < 0x7f80;
  const float inverse = is_finite && magnitude >= kLeast ? 127.0f / magnitude : 0;
  *scale = !is_finite ? __builtin_nanf("") : magnitude >= kLeast ? magnitude / 127.0f : 0;
  if (!is_finite) {
    std::fill_n(codes, kActivationBlock, std::int8_t{0});
    return;
  }
  for (int half = 0; half < kActivationBlock; half += kLanes) {
    // Adding 1.5 * 2^23 rounds to an integer, which the lower bits then hold.
    constexpr float kRound = 0x1.8p23f;
    const Words bits = convert<Words>(load_raw<Half>(x + half));
    const Float value = bits_as<Float>(shift_left(bits, 16)) * splat(inverse) + splat(kRound);
    const Int code = bits_as<Int>(value) - splat<Int>(__builtin_bit_cast(std::int32_t, kRound));
#if defined(__AVX512F__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + half),
                     _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(code.raw)));
#elif defined(__AVX2__)
    // Packing works on halves of registers: the halves of the words are put into order first.
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packs_epi32(reinterpret_cast<__m256i>(code.lo.raw),
                                                    reinterpret_cast<__m256i>(code.hi.raw)),
                                 0xd8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(codes + half),
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
#else
    std::int32_t lanes[kLanes];
    store_raw(lanes, code);
    for (int i = 0; i < kLanes; ++i) codes[half + i] = static_cast<std::int8_t>(lanes[i]);
#endif
  }
}

// Sets the sums of the lanes of a step.
LAMINA_SIMD void sum_codes(QuantisedStep* step) {
#if defined(__AVX512F__)
  _mm512_store_si512(step->sums, _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1),
                                                     _mm512_load_si512(step->codes)));
#elif defined(__AVX2__)
  for (int at = 0; at < QuantisedStep::kValues; at += 32) {
    const __m256i codes = _mm256_load_si256(reinterpret_cast<const __m256i*>(step->codes + at));
    const __m256i twos = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    _mm256_store_si256(reinterpret_cast<__m256i*>(step->sums + at / 4),
                       _mm256_madd_epi16(twos, _mm256_set1_epi16(1)));
  }
#else
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::int8_t* c = step->codes + 4 * lane;
    step->sums[lane] = c[0] + c[1] + c[2] + c[3];
  }
#endif
}

void quantise_steps(const std::uint16_t* x, std::int64_t width, QuantisedStep* out) {
  constexpr int kValues = QuantisedStep::kValues;
  constexpr int kBlocks = kValues / kActivationBlock, kBlockLanes = kLanes / kBlocks;
  for (std::int64_t at = 0; at < width; at += kValues, ++out) {
    for (int block = 0; block < kBlocks; ++block) {
      const std::int64_t first = at + block * kActivationBlock;
      const std::int64_t count = std::clamp<std::int64_t>(width - first, 0, kActivationBlock);
      std::uint16_t padded[kActivationBlock] = {};
      if (count < kActivationBlock) std::copy_n(x + std::min(first, width), count, padded);
      float scale;
      quantise_block(count < kActivationBlock ? padded : x + first,
                     out->codes + block * kActivationBlock, &scale);
      std::fill_n(out->scales + block * kBlockLanes, kBlockLanes, scale);
    }
    sum_codes(out);
  }
}

// ---- Other orders -------------------------------------------------------------------------------

constexpr int kBlocksOfStep = QuantisedStep::kValues / kActivationBlock;
constexpr int kLanesOfBlock = QuantisedStep::kLanes / kBlocksOfStep;

LAMINA_SIMD void arrange(const QuantisedStep* steps, QuantisedHalves* out) {
  constexpr int kHalf = kActivationBlock / 2, kHalfLanes = kLanesOfBlock / 2;
  for (int block = 0; block < QuantisedHalves::kValues / kActivationBlock; ++block) {
    const QuantisedStep& step = steps[block / kBlocksOfStep];
    const int first = block % kBlocksOfStep * kLanesOfBlock;
    for (int half = 0; half < 2; ++half)
      std::memcpy(out->codes[half] + block * kHalf, step.codes + 4 * first + half * kHalf, kHalf);
    for (int i = 0; i < kHalfLanes; ++i) {
      out->scales[block * kHalfLanes + i] = step.scales[first];
      out->sums[block * kHalfLanes + i] = step.sums[first + i] + step.sums[first + kHalfLanes + i];
    }
  }
}

// The place of a part in QuantisedParts: a row of codes and its half.
struct PartPlace {
  int row, half;
};
constexpr PartPlace place_of(int part) { return {part / 4 * 2 + part % 2, part / 2 % 2}; }
constexpr int part_at(PartPlace place) {
  return place.row / 2 * 4 + place.half * 2 + place.row % 2;
}

LAMINA_SIMD void arrange(const QuantisedStep* steps, QuantisedParts* out) {
  for (int part = 0; part < QuantisedParts::kParts; ++part) {
    const QuantisedStep& step = steps[part / kBlocksOfStep];
    const int first = part % kBlocksOfStep * kLanesOfBlock;
    const PartPlace place = place_of(part);
    std::memcpy(out->codes[place.row] + kActivationBlock * place.half, step.codes + 4 * first,
                kActivationBlock);
    std::int32_t sum = 0;
    for (int lane = first; lane < first + kLanesOfBlock; ++lane) sum += step.sums[lane];
    out->scales[part] = step.scales[first];
    out->sums[part] = static_cast<float>(sum) * step.scales[first];
  }
}

// ---- Floats and bf16 ----------------------------------------------------------------------------

// Returns the exponent of a row: magnitudes are below 2^(exponent - 126). 255: not all are finite.
int largest_exponent(const std::uint16_t* x, std::int64_t width) {
  int largest = 0;
  for (std::int64_t i = 0; i < width; ++i) largest = std::max(largest, x[i] & 0x7fff);
  return largest >> 7;
}

LAMINA_SIMD float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(127 + exponent) << 23);
}

// Calls write(values, step) for the steps of a row, then sets its end.
template <typename X, typename Write>
void write_steps(const std::uint16_t* x, std::int64_t width, float end_scale, X* out,
                 const Write& write) {
  for (std::int64_t at = 0; at < width; at += X::kValues, ++out) {
    std::uint16_t padded[X::kValues] = {};
    const std::uint16_t* from = x + at;
    if (width - at < X::kValues) {
      std::copy_n(from, width - at, padded);
      from = padded;
    }
    write(from, out);
  }
  const RowEnd end = {end_scale};
  std::memcpy(out, &end, sizeof end);
}

void arrange(const std::uint16_t* x, std::int64_t width, FloatStep* out) {
  // Values times the factor are below 2^127.
  const int shift = std::min(FloatStep::kShift, 253 - largest_exponent(x, width));
  const Float factor = splat(power_of_two(shift));
  write_steps(x, width, power_of_two(FloatStep::kShift - shift), out,
              [&](const std::uint16_t* from, FloatStep* step) {
                const auto fours = load_bits<Vec<std::uint64_t, FloatStep::kLanes>>(from);
                for (int i = 0; i < 4; ++i) {
                  const Words bits = shift_left(convert<Words>(shift_right(fours, 16 * i)), 16);
                  store(step->x[i], bits_as<Float>(bits) * factor);
                }
              });
}

#if defined(__AVX512BF16__)
void arrange(const std::uint16_t* x, std::int64_t width, Bf16Step* out) {
  // Sums of a block's products with values of at most 448 stay finite.
  constexpr int kLargestExponent = 226, kShift = 29;
  const bool is_large = largest_exponent(x, width) > kLargestExponent;
  const float factor = power_of_two(-kShift);
  write_steps(x, width, is_large ? power_of_two(kShift) : 1, out,
              [&](const std::uint16_t* from, Bf16Step* step) {
                for (int i = 0; i < Bf16Step::kValues; ++i) {
                  std::uint16_t& to = step->x[i / 8 % 2][i / 16 * 8 + i % 8];
                  to = is_large ? narrow(widen(from[i]) * factor) : from[i];
                }
              });
}
#endif

// ---- Forms --------------------------------------------------------------------------------------

template <typename X>
constexpr int kEndSteps = std::is_same_v<X, FloatStep> || std::is_same_v<X, Bf16Step> ? 1 : 0;

template <typename X>
void prepare(const std::uint16_t* x, std::int64_t width, void* out) {
  if constexpr (kEndSteps<X> == 1) {
    arrange(x, width, static_cast<X*>(out));
  } else if constexpr (std::is_same_v<X, QuantisedStep>) {
    quantise_steps(x, width, static_cast<QuantisedStep*>(out));
  } else {
    auto* to = static_cast<X*>(out);
    for (std::int64_t at = 0; at < width; at += X::kValues, ++to) {
      QuantisedStep steps[X::kValues / QuantisedStep::kValues] = {};
      quantise_steps(x + at, std::min<std::int64_t>(X::kValues, width - at), steps);
      arrange(steps, to);
    }
  }
}

template <typename X>
constexpr RowForm kRowForm = {X::kValues, sizeof(X), kEndSteps<X>, prepare<X>};

}  // namespace
}  // namespace lamina::cpu
