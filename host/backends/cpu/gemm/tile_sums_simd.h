// The sums of our tile products in registers: rows of A times a panel of B. Internal to each file
// that includes it.
#pragma once

#include "backends/cpu/gemm/tile_pack_simd.h"

namespace lamina::cpu {
namespace {

// Sums in registers: kRows rows of A times kVectors vectors of B, beside kVectors vectors of B and
// one word of A.
#if defined(__AVX512F__)
constexpr int kRows = 8, kVectors = 3;
#elif defined(__AVX2__)
constexpr int kRows = 4, kVectors = 3;
#else
constexpr int kRows = 4, kVectors = 2;
#endif
constexpr int kWidth = kVectors * kWordLanes;
constexpr std::int64_t kSumsOfPanels = kRows * kWidth;

// The words of kRows rows of A: word w of row r is at rows[r][w * step], and step is 1 or kRows.
struct RowWords {
  const Word* rows[kRows];
  std::int64_t step;
  const Word* next;  // if rows are packed: the rows after these, only to be prefetched
};

using Sums = Native::F[kRows][kVectors];

#if defined(__AVX2__) && !defined(__AVX512F__)

// Adds the products of words. In assembly, because compilers that unroll the loop keep some sums in
// memory: it needs all 16 registers. If another thread uses the same core, each decodes 3
// instructions per cycle: the 20 of a word, without unrolling 22, then take longer than its
// multiply-adds, which take 6 cycles. The loads of B are between multiply-adds: three in a row
// make the loop 1 to 3 % slower.
// clang-format off
#define LAMINA_ADD_ROW(word, step, row, sum0, sum1, sum2)                   \
  "vbroadcastss 4*" step "*" #word "(%[row" #row "], %[at]), %%ymm15\n\t"   \
  "vfmadd231ps %%ymm12, %%ymm15, %[" #sum0 "]\n\t"                          \
  "vfmadd231ps %%ymm13, %%ymm15, %[" #sum1 "]\n\t"                          \
  "vfmadd231ps %%ymm14, %%ymm15, %[" #sum2 "]\n\t"
#define LAMINA_ADD_WORD(word, step)                                         \
  "vbroadcastss 4*" step "*" #word "(%[row0], %[at]), %%ymm15\n\t"          \
  "vmovaps 96*" #word "(%[b]), %%ymm12\n\t"                                 \
  "vfmadd231ps %%ymm12, %%ymm15, %[s00]\n\t"                                \
  "vmovaps 96*" #word "+32(%[b]), %%ymm13\n\t"                              \
  "vfmadd231ps %%ymm13, %%ymm15, %[s01]\n\t"                                \
  "vmovaps 96*" #word "+64(%[b]), %%ymm14\n\t"                              \
  "vfmadd231ps %%ymm14, %%ymm15, %[s02]\n\t"                                \
  LAMINA_ADD_ROW(word, step, 1, s10, s11, s12)                              \
  LAMINA_ADD_ROW(word, step, 2, s20, s21, s22)                              \
  LAMINA_ADD_ROW(word, step, 3, s30, s31, s32)
#define LAMINA_ADD_8_WORDS(step)                                                 \
  LAMINA_ADD_WORD(0, step) LAMINA_ADD_WORD(1, step) LAMINA_ADD_WORD(2, step)     \
  LAMINA_ADD_WORD(3, step) LAMINA_ADD_WORD(4, step) LAMINA_ADD_WORD(5, step)     \
  LAMINA_ADD_WORD(6, step) LAMINA_ADD_WORD(7, step)
#define LAMINA_ADD_WORDS(words)                                                \
  asm(words                                                                    \
      : [s00] "+x"(sum[0][0]), [s01] "+x"(sum[0][1]), [s02] "+x"(sum[0][2]),   \
        [s10] "+x"(sum[1][0]), [s11] "+x"(sum[1][1]), [s12] "+x"(sum[1][2]),   \
        [s20] "+x"(sum[2][0]), [s21] "+x"(sum[2][1]), [s22] "+x"(sum[2][2]),   \
        [s30] "+x"(sum[3][0]), [s31] "+x"(sum[3][1]), [s32] "+x"(sum[3][2])    \
      : [row0] "r"(a.rows[0]), [row1] "r"(a.rows[1]), [row2] "r"(a.rows[2]),   \
        [row3] "r"(a.rows[3]), [at] "r"(at), [b] "r"(b)                        \
      : "xmm12", "xmm13", "xmm14", "xmm15", "memory")
// clang-format on

template <class Format, bool kPacked>
LAMINA_SIMD void add_products(RowWords a, const Word* b, std::int64_t num_words, Sums& sum) {
  static_assert(kRows == 4 && kVectors == 3 && Format::kPerWord == 1);
  constexpr std::int64_t kUnrolled = 8, kStepBytes = (kPacked ? kRows : 1) * sizeof(Word);
  std::int64_t at = 0, word = 0;
  for (; word + kUnrolled <= num_words; word += kUnrolled) {
    if constexpr (kPacked) {
      static_assert(kUnrolled * kStepBytes == 128);
      for (const int line : {0, 64})
        __builtin_prefetch(reinterpret_cast<const char*>(a.next) + at + line);
      LAMINA_ADD_WORDS(LAMINA_ADD_8_WORDS("4"));
    } else {
      LAMINA_ADD_WORDS(LAMINA_ADD_8_WORDS("1"));
    }
    at += kUnrolled * kStepBytes;
    b += kUnrolled * kWidth;
  }
  for (; word < num_words; ++word, at += kStepBytes, b += kWidth)
    LAMINA_ADD_WORDS(LAMINA_ADD_WORD(0, "1"));
}

#undef LAMINA_ADD_WORDS
#undef LAMINA_ADD_8_WORDS
#undef LAMINA_ADD_WORD
#undef LAMINA_ADD_ROW

#else

// Prevents the compiler from reading a word of A again for each vector that it is multiplied with.
LAMINA_SIMD void keep_in_register(Native::F& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#else
  asm("" : "+x"(x));
#endif
}

template <class Format, bool kPacked>
LAMINA_SIMD void add_products(RowWords a, const Word* b, std::int64_t num_words, Sums& sum) {
  constexpr std::int64_t kStep = kPacked ? kRows : 1;
  const std::int64_t end = num_words * kStep;
  for (std::int64_t at = 0; at < end; at += kStep, b += kWidth) {
    Native::F columns[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) columns[v] = Native::load(b + v * kWordLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Native::F word = Native::broadcast(a.rows[r] + at);
      keep_in_register(word);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = Format::multiply_add(sum[r][v], word, columns[v]);
    }
  }
}

#endif

// Computes sums[kRows][kWidth] (+)= rows of A times a panel of B.
template <class Format, bool kPacked>
void multiply_panels(const RowWords& a, const Word* b, std::int64_t num_words, bool add,
                     float* sums) {
  Sums sum;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = add ? Native::load(sums + r * kWidth + v * kWordLanes) : Native::F{};
  add_products<Format, kPacked>(a, b, num_words, sum);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) Native::store(sums + r * kWidth + v * kWordLanes, sum[r][v]);
}

template <class Format>
void multiply_panels(const RowWords& a, const Word* b, std::int64_t num_words, bool add,
                     float* sums) {
  if (a.step == 1)
    multiply_panels<Format, false>(a, b, num_words, add, sums);
  else
    multiply_panels<Format, true>(a, b, num_words, add, sums);
}

}  // namespace
}  // namespace lamina::cpu
