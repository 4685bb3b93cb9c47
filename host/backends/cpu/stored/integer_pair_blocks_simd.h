// Packed blocks of integer_pair_tiles_simd.h. Internal to each file that includes it.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backends/cpu/stored/integer_bytes_simd.h"
#include "backends/cpu/stored/integer_tiles_simd.h"

namespace lamina::cpu {
namespace {

constexpr int kStripColumns = 16;
static_assert(kTileColumns % kStripColumns == 0);

// ---- Blocks of w --------------------------------------------------------------------------------

// A word of codes becomes two of integers: of its even values, then of its odd ones.
struct StripOfIntegers {
  static constexpr int kWords = 2 * TileBlock::kWords;
  alignas(64) std::int16_t codes[kWords][kStripColumns][2];
  float scales[1][kStripColumns];
};

LAMINA_SIMD __m256i even_bytes(__m256i x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
LAMINA_SIMD __m256i odd_bytes(__m256i x) { return _mm256_srai_epi16(x, 8); }

// Stores a word of eight columns from `column` on.
LAMINA_SIMD void store_word(StripOfIntegers& block, int word, int column, __m256 codes) {
  const __m256i integers = _mm256_xor_si256(_mm256_castps_si256(codes), _mm256_set1_epi8(-128));
  const auto put = [&](int to, __m256i x) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(block.codes[to][column]), x);
  };
  put(2 * word, even_bytes(integers));
  put(2 * word + 1, odd_bytes(integers));
}

// ---- Blocks of x --------------------------------------------------------------------------------

struct alignas(32) RowsOfCodes {
  std::int8_t codes[TileBlock::kWords][kTileRows][4];
  std::int16_t starts[2][kTileRows][2];  // of both sums of a word, for each part
  std::int32_t rests[kTileRows];         // (bias - offset) * sum of the codes
  float sums[2][kTileRows];              // scale * sum of the codes of a part
  float scales[kTileRows];
};

struct alignas(32) RowsOfIntegers {
  std::int16_t codes[StripOfIntegers::kWords][kTileRows][2];
  float scales[kTileRows];
};

// Stores words of four rows, row by row, to to[first], to[first + step] and so on.
template <typename Rows>
LAMINA_SIMD void store_words(const __m256i (&rows)[kTileRows], int first, int step, Rows* to) {
  static_assert(kTileRows == 4 && sizeof(Rows) == 16);
  const __m256i a = _mm256_unpacklo_epi32(rows[0], rows[1]);
  const __m256i b = _mm256_unpackhi_epi32(rows[0], rows[1]);
  const __m256i c = _mm256_unpacklo_epi32(rows[2], rows[3]);
  const __m256i d = _mm256_unpackhi_epi32(rows[2], rows[3]);
  const __m256i words[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                            _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};
  for (int word = 0; word < 4; ++word) {
    const auto put = [&](int at, __m128i x) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to[first + step * at]), x);
    };
    put(word, _mm256_castsi256_si128(words[word]));
    put(word + 4, _mm256_extracti128_si256(words[word], 1));
  }
}

// The sums of codes that kernels need, with the constants of the format of w.
template <int kParts, int kBias, int kOffset>
LAMINA_SIMD void set_sums(__m256i codes, int r, RowsOfCodes* out) {
  __m256i sums = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0x4e));
  sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xb1));  // of each half, in each word
  if constexpr (kParts == 1)
    sums = _mm256_add_epi16(sums, _mm256_permute2x128_si256(sums, sums, 1));
  const __m256i starts = _mm256_mullo_epi16(sums, _mm256_set1_epi16(-kBias));
  const __m256i all = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
  const int of_part[] = {_mm256_extract_epi32(all, 0), _mm256_extract_epi32(all, 4)};
  const int start_of_part[] = {_mm256_extract_epi32(starts, 0), _mm256_extract_epi32(starts, 4)};
  for (int part = 0; part < kParts; ++part) {
    __builtin_memcpy(out->starts[part][r], start_of_part + part, 4);
    out->sums[part][r] = static_cast<float>(of_part[part]) * out->scales[r];
  }
  out->rests[r] = (kBias - kOffset) * of_part[0];
}

template <typename Rows, int kParts = 1, int kBias = 0, int kOffset = 0>
void pack_slab(const QuantisedStep* rows, std::int64_t count, std::int64_t k, int /*offset*/,
               std::byte* slab) {
  auto* out = reinterpret_cast<Rows*>(slab);
  const std::int64_t steps = divide_up(k, std::int64_t{kStepValues});
  for (std::int64_t block = 0; block < k / kActivationBlock; ++block, ++out) {
    __m256i codes[kTileRows];
    for (int r = 0; r < kTileRows; ++r) {
      const QuantisedStep& q = rows[std::min<std::int64_t>(r, count - 1) * steps + block / 2];
      const int half = static_cast<int>(block % 2);
      codes[r] =
          _mm256_load_si256(reinterpret_cast<const __m256i*>(q.codes + half * kActivationBlock));
      out->scales[r] = q.scales[half * TileBlock::kWords];
      if constexpr (std::is_same_v<Rows, RowsOfCodes>)
        set_sums<kParts, kBias, kOffset>(codes[r], r, out);
    }
    if constexpr (std::is_same_v<Rows, RowsOfCodes>) {
      store_words(codes, 0, 1, out->codes);
    } else {
      __m256i even[kTileRows], odd[kTileRows];
      for (int r = 0; r < kTileRows; ++r)
        even[r] = even_bytes(codes[r]), odd[r] = odd_bytes(codes[r]);
      store_words(even, 0, 2, out->codes);
      store_words(odd, 1, 2, out->codes);
    }
  }
}

}  // namespace
}  // namespace lamina::cpu
