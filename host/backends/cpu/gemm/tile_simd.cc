// Our product of one tile, for one instruction set: bf16 by vdpbf16ps if the machine has it, else
// as f32 by FMA.
#include "backends/cpu/gemm/tiles.h"

#include <algorithm>

#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/gemm/tile_pack_simd.h"

namespace lamina::cpu {
namespace {

// ---- Sums in registers --------------------------------------------------------------------------

// kRows rows of A times kVectors vectors of B, beside kVectors vectors of B and one word of A.
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

// ---- Products -----------------------------------------------------------------------------------

// A deep panel of B is multiplied in parts that stay in the nearest caches, each with kSlabsAtOnce
// slabs of A, whose sums stay there too. With AVX-512 the caches are larger, and a part is a panel.
#if defined(__AVX512F__)
constexpr std::int64_t kMaxWordsAtOnce = std::int64_t{1} << 30, kSlabsAtOnce = 1;
#else
constexpr std::int64_t kMaxWordsAtOnce = 1024, kSlabsAtOnce = 64;
#endif
// Sums of a whole tile are finished in registers if they are complete after one part.
constexpr bool kFinishesInRegisters = kSlabsAtOnce == 1 && kWordLanes == kLanes;

static_assert(kPackedRows % std::max(kRows, kWordLanes) == 0);

template <class Format>
bool needs_no_packing(const TileOperand& a, std::int64_t k) {
  constexpr bool kIsWord = sizeof(typename Format::Element) * Format::kPerWord == sizeof(Word);
  return kIsWord && a.k_stride == 1 && a.stride % Format::kPerWord == 0 &&
         k % Format::kPerWord == 0;
}

// Returns words [word, ...) of rows from `row` on. Beyond the end of A they repeat its last row.
template <class Format>
RowWords rows_at(const TileArguments& t, std::int64_t row, std::int64_t word) {
  RowWords words;
  if (t.packed_a != nullptr) {
    const std::int64_t stride = panel_stride<kRows>(words_of<Format>(t.k));
    const auto* slab = static_cast<const Word*>(t.packed_a) + row / kRows * stride + word * kRows;
    words.step = kRows;
    words.next = slab + stride;
    for (int r = 0; r < kRows; ++r) words.rows[r] = slab + r;
  } else {
    words.step = 1;
    words.next = nullptr;
    const auto* a = static_cast<const typename Format::Element*>(t.a.data);
    for (int r = 0; r < kRows; ++r)
      words.rows[r] =
          reinterpret_cast<const Word*>(a + std::min<std::int64_t>(row + r, t.m - 1) * t.a.stride) +
          word;
  }
  return words;
}

// Adds the bias and the values of C to the sums of a whole tile, and rounds them into C from [row,
// column] on, as finish() does.
template <typename Out, typename Bias>
LAMINA_SIMD void finish_sums(const TileArguments& t, Sums& sums, std::int64_t row,
                             std::int64_t column) {
  Out* c = static_cast<Out*>(t.c) + row * t.ldc + column;
  const auto each = [&](auto change) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) change(sums[r][v], c + r * t.ldc + v * kLanes, v);
  };
  if (t.bias) {
    const Bias* bias = static_cast<const Bias*>(t.bias) + column;
    each([&](Native::F& sum, Out*, int v) { sum = sum + load(bias + v * kLanes).raw; });
  }
  if (t.accumulate) each([](Native::F& sum, const Out* from, int) { sum = sum + load(from).raw; });
  if constexpr (sizeof(Out) == 4)
    if (t.streams)
      return each([](Native::F sum, Out* to, int) { streaming_store(to, Float{sum}); });
  each([](Native::F sum, Out* to, int) { store(to, Float{sum}); });
}

template <class Format, bool kPacked>
void multiply_tile(const RowWords& a, const Word* b, std::int64_t num_words, const TileArguments& t,
                   std::int64_t row, std::int64_t column) {
  Sums sums = {};
  add_products<Format, kPacked>(a, b, num_words, sums);
  if (t.bf16_out && t.bf16_bias) return finish_sums<bfloat16, bfloat16>(t, sums, row, column);
  if (t.bf16_out) return finish_sums<bfloat16, float>(t, sums, row, column);
  if (t.bf16_bias) return finish_sums<float, bfloat16>(t, sums, row, column);
  finish_sums<float, float>(t, sums, row, column);
}

// Computes a whole tile of C, whose sums never leave the registers.
template <class Format>
void multiply_tile(const RowWords& a, const Word* b, std::int64_t num_words, const TileArguments& t,
                   std::int64_t row, std::int64_t column) {
  if (a.step == 1)
    multiply_tile<Format, false>(a, b, num_words, t, row, column);
  else
    multiply_tile<Format, true>(a, b, num_words, t, row, column);
}

template <class Format>
void multiply(const TileArguments& t) {
  using Element = typename Format::Element;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(Element));
  alignas(64) float own_sums[kSlabsAtOnce * kSumsOfPanels];
  auto* panel = reinterpret_cast<Word*>(t.scratch);
  const std::int64_t num_words = words_of<Format>(t.k), num_slabs = divide_up(t.m, kRows);
  const std::int64_t num_parts = std::max<std::int64_t>(1, divide_up(num_words, kMaxWordsAtOnce));
  const std::int64_t words_at_once =
      std::max<std::int64_t>(1, round_up(divide_up(num_words, num_parts), kPackedRows));
  float* sums = t.sums;
  for (std::int64_t column = 0; column < t.n; column += kWidth) {
    const std::int64_t columns = std::min<std::int64_t>(kWidth, t.n - column);
    pack<Format, kWidth>(t.b.from(column, 0, kSize), columns, t.k, panel);
    const std::int64_t next = column + kWidth;
    Fetch fetch = Fetch::of<Element>(
        t.b.from(next, 0, kSize),
        std::clamp<std::int64_t>(t.n + t.following_columns - next, 0, kWidth), t.k, num_slabs);
    for (std::int64_t first = 0; first < num_slabs; first += kSlabsAtOnce) {
      const std::int64_t past = std::min(first + kSlabsAtOnce, num_slabs);
      for (std::int64_t word = 0; word == 0 || word < num_words; word += words_at_once) {
        const std::int64_t words = std::min(words_at_once, num_words - word);
        const bool add = !t.is_first || word > 0;
        const bool is_last = t.is_last && word + words == num_words;
        float* to = t.sums ? sums : own_sums;
        for (std::int64_t slab = first; slab < past; ++slab) {
          const std::int64_t row = slab * kRows, rows = std::min<std::int64_t>(kRows, t.m - row);
          if (word == 0) fetch.step();
          if (is_last && !(kHasStreamingStores && t.streams))
            fetch_outputs(t, row, rows, column, columns);
          const RowWords a = rows_at<Format>(t, row, word);
          if constexpr (kFinishesInRegisters)
            if (!t.sums && rows == kRows && columns == kWidth) {
              multiply_tile<Format>(a, panel, words, t, row, column);
              continue;
            }
          multiply_panels<Format>(a, panel + word * kWidth, words, add, to);
          if (is_last) finish(t, to, kWidth, row, rows, column, columns);
          if (t.sums || num_parts > 1) to += kSumsOfPanels;
        }
      }
      if (t.sums) sums += (past - first) * kSumsOfPanels;
    }
  }
  end_finishes(t);
}

template <class Format>
void pack_a(const TileOperand& a, std::int64_t m, std::int64_t k, void* packed) {
  pack<Format, kRows>(a, m, k, static_cast<Word*>(packed));
}

template <class Format>
std::size_t packed_a_bytes(std::int64_t m, std::int64_t k) {
  return sizeof(Word) * static_cast<std::size_t>(packed_count<kRows>(m) / kRows *
                                                 panel_stride<kRows>(words_of<Format>(k)));
}

template <class Format>
std::size_t scratch_bytes(std::int64_t k) {
  return sizeof(Word) * static_cast<std::size_t>(panel_stride<kWidth>(words_of<Format>(k)));
}

template <class Format>
constexpr TileProduct product(std::string_view name) {
  return {multiply<Format>,
          pack_a<Format>,
          needs_no_packing<Format>,
          packed_a_bytes<Format>,
          scratch_bytes<Format>,
          kRows,
          kWidth,
          {},
          name};
}

constexpr TileFunctions kFunctions = {
    .f32 = product<FloatWords>("tiles " LAMINA_ISA_NAME),
    .bf16 = product<WidenedWords>("tiles " LAMINA_ISA_NAME),
#if defined(__AVX512BF16__)
    .pairs = product<PairWords>("tiles avx512_bf16"),
#endif
};

}  // namespace

constinit const TileFunctions TileFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
