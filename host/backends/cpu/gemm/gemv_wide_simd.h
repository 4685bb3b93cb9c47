// Products of rows of W with five and more rows of x, for AVX2. Internal to each file that includes
// it.
//
// gemv_simd.cc widens x again for each row of W, and its order of sums needs two registers for each
// pair of rows. Here a piece of x is widened once for a block of W. The sums of even steps are
// computed before the sums of odd steps, so that 12 registers hold four rows of W times three of
// x, or six times two. Each sum has the order and the bits of gemv_simd.cc.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/gemv_lanes.h"
#include "backends/cpu/gemm/rows_finish_simd.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

constexpr int kWideSums = 12;                            // in registers
constexpr int kMostWideRows = 3;                         // of x at once
constexpr std::int64_t kFewestWideX = 5;                 // rows of x: fewer wait for memory
constexpr std::int64_t kWideDepth = 1024;                // of a piece of x, which stays in L1
constexpr std::int64_t kWideBlock = 64;                  // rows of W that share a piece of x
constexpr std::int64_t kFewestWideRows = kWideSums / 2;  // of W
// Products of a block whose sums are kept in memory from piece to piece.
constexpr std::int64_t kWideProducts = 16 * kWideBlock;

// Reads W and x by the steps of X, in kParts registers each.
template <typename X>
struct WideSteps {
  static constexpr int kParts = X::kStep / X::kNumLanes;
  using Element = typename X::Element;
  using Sum = typename X::Sum;

  static Sum part(const Element* p, int which) {
    if constexpr (kParts == 1) {
      return load_raw<Sum>(p);
    } else {
      const auto bits = load_bits<typename X::Bits>(p);
      return which == 0 ? X::even(bits) : X::odd(bits);
    }
  }
};

// Widens a piece of M rows of x: part p of step s of row i is at piece[((s * kParts + p) * M + i) *
// 8]. The last step is filled with zeros.
template <typename X, int M>
void widen_piece(const typename X::Element* x, std::int64_t ldx, std::int64_t depth, float* piece) {
  using Steps = WideSteps<X>;
  const auto put = [&](const typename X::Element* step, int i, float* to) {
#pragma GCC unroll 2
    for (int p = 0; p < Steps::kParts; ++p)
      store_raw(to + (p * M + i) * X::kNumLanes, Steps::part(step, p));
  };
  std::int64_t at = 0;
  for (; at + X::kStep <= depth; at += X::kStep, piece += Steps::kParts * M * X::kNumLanes)
#pragma GCC unroll 3
    for (int i = 0; i < M; ++i) put(x + i * ldx + at, i, piece);
  if (at == depth) return;
  for (int i = 0; i < M; ++i) {
    typename X::Element last[X::kStep] = {};
    std::memcpy(last, x + i * ldx + at, static_cast<std::size_t>(depth - at) * sizeof(last[0]));
    put(last, i, piece);
  }
}

// Instructions that add the products of a step. In assembly, because compilers keep some of the
// sums in memory otherwise: 12 sums, up to three registers of x and one of W are all 16 registers.
// clang-format off
#define LAMINA_EVEN "vpslld $16, %%ymm15, %%ymm15\n\t"
#define LAMINA_ODD "vpand %[odd], %%ymm15, %%ymm15\n\t"
#define LAMINA_PLAIN ""
#define LAMINA_LOAD_X(number, to) "vmovups 32*" #number "(%[x]), %%ymm" #to "\n\t"
#define LAMINA_ROW_3(row, widen, a, b, c)                                            \
  "vmovups (" row "), %%ymm15\n\t" widen                                             \
  "vfmadd231ps %%ymm12, %%ymm15, %[" #a "]\n\t"                                      \
  "vfmadd231ps %%ymm13, %%ymm15, %[" #b "]\n\t"                                      \
  "vfmadd231ps %%ymm14, %%ymm15, %[" #c "]\n\t"
#define LAMINA_ROW_2(row, widen, a, b)                                               \
  "vmovups (" row "), %%ymm15\n\t" widen                                             \
  "vfmadd231ps %%ymm12, %%ymm15, %[" #a "]\n\t"                                      \
  "vfmadd231ps %%ymm13, %%ymm15, %[" #b "]\n\t"
// One part of four rows of W times three rows of x, and of six times two. `first`, ...: the
// registers of x in the step.
#define LAMINA_PART_3(first, second, third, widen)                                   \
  LAMINA_LOAD_X(first, 12) LAMINA_LOAD_X(second, 13) LAMINA_LOAD_X(third, 14)        \
  LAMINA_ROW_3("%[w]", widen, s0, s1, s2)                                            \
  LAMINA_ROW_3("%[w],%[ld]", widen, s3, s4, s5)                                      \
  LAMINA_ROW_3("%[w],%[ld],2", widen, s6, s7, s8)                                    \
  LAMINA_ROW_3("%[v]", widen, s9, s10, s11)
#define LAMINA_PART_2(first, second, widen)                                          \
  LAMINA_LOAD_X(first, 12) LAMINA_LOAD_X(second, 13)                                 \
  LAMINA_ROW_2("%[w]", widen, s0, s1)                                                \
  LAMINA_ROW_2("%[w],%[ld]", widen, s2, s3)                                          \
  LAMINA_ROW_2("%[w],%[ld],2", widen, s4, s5)                                        \
  LAMINA_ROW_2("%[v]", widen, s6, s7)                                                \
  LAMINA_ROW_2("%[v],%[ld]", widen, s8, s9)                                          \
  LAMINA_ROW_2("%[v],%[ld],2", widen, s10, s11)
#define LAMINA_ADD_STEPS(steps)                                                      \
  asm(steps                                                                          \
      : [s0] "+x"(s[0]), [s1] "+x"(s[1]), [s2] "+x"(s[2]), [s3] "+x"(s[3]),          \
        [s4] "+x"(s[4]), [s5] "+x"(s[5]), [s6] "+x"(s[6]), [s7] "+x"(s[7]),          \
        [s8] "+x"(s[8]), [s9] "+x"(s[9]), [s10] "+x"(s[10]), [s11] "+x"(s[11])       \
      : [w] "r"(w), [v] "r"(v), [ld] "r"(ld), [x] "r"(x), [odd] "m"(kOddHalves)      \
      : "xmm12", "xmm13", "xmm14", "xmm15", "memory")
// clang-format on

alignas(32) constexpr std::uint32_t kOddHalves[8] = {0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                     0xffff0000u, 0xffff0000u, 0xffff0000u,
                                                     0xffff0000u, 0xffff0000u};

using WideRegister = decltype(Lanes::Sum::raw);

// Lines of W that are read later, prefetched with every step: the time of their transfer is shared
// by all rows of x.
struct WideFetch {
  const std::byte* rows;   // half as many as a tile has
  std::int64_t ld, bytes;  // from row to row, from step to step
};

// Adds every second step of M rows of x times kWideSums / M rows of W: s[r * M + i] (+)= row r of W
// times row i of x.
template <typename X, int M>
LAMINA_SIMD void add_every_second(const std::byte* w, std::int64_t ld, const float* x,
                                  std::int64_t steps, WideFetch fetch,
                                  WideRegister (&s)[kWideSums]) {
  constexpr bool kIsF32 = WideSteps<X>::kParts == 1;
  constexpr std::int64_t kBytesOfTwo = 64, kFloatsOfTwo = 2 * WideSteps<X>::kParts * M * 8;
  const std::byte* v = w + 3 * ld;
  for (; steps > 0; steps -= 2, w += kBytesOfTwo, v += kBytesOfTwo, x += kFloatsOfTwo) {
#pragma GCC unroll 3
    for (int r = 0; r < kWideSums / M / 2; ++r) __builtin_prefetch(fetch.rows + r * fetch.ld, 0, 2);
    fetch.rows += fetch.bytes;
    if constexpr (M == 3 && kIsF32)
      LAMINA_ADD_STEPS(LAMINA_PART_3(0, 1, 2, LAMINA_PLAIN));
    else if constexpr (M == 3)
      LAMINA_ADD_STEPS(LAMINA_PART_3(0, 1, 2, LAMINA_EVEN) LAMINA_PART_3(3, 4, 5, LAMINA_ODD));
    else if constexpr (kIsF32)
      LAMINA_ADD_STEPS(LAMINA_PART_2(0, 1, LAMINA_PLAIN));
    else
      LAMINA_ADD_STEPS(LAMINA_PART_2(0, 1, LAMINA_EVEN) LAMINA_PART_2(2, 3, LAMINA_ODD));
  }
}

#undef LAMINA_ADD_STEPS
#undef LAMINA_PART_2
#undef LAMINA_PART_3
#undef LAMINA_ROW_2
#undef LAMINA_ROW_3
#undef LAMINA_LOAD_X
#undef LAMINA_PLAIN
#undef LAMINA_ODD
#undef LAMINA_EVEN

struct WidePiece {
  const float* x;
  std::int64_t depth;  // elements
  bool is_first, is_last;
  const std::byte* next;           // the rows of W of the next piece, as many as of this one
  std::int64_t group, num_groups;  // of rows of x: each prefetches a part of `next`
};

// Sums of kWideSums / M rows of W times M rows of x: of even steps, then of odd steps.
using WideTile = float[2][kWideSums][Lanes::kNumLanes];

// Adds the products of a piece to the tile of rows [row, ...) of W. The last piece sets sums[i *
// kBlockRows + r].
template <typename X, int M>
void multiply_tile(const typename X::Element* w, std::int64_t ldw, std::int64_t row,
                   const WidePiece& piece, WideTile& tile, float* sums) {
  using Element = typename X::Element;
  constexpr int R = kWideSums / M;
  constexpr std::int64_t kXStep = WideSteps<X>::kParts * M * X::kNumLanes, kLineBytes = 64;
  static_assert(X::kSums == 2);
  const std::int64_t steps = piece.depth / X::kStep, rest = piece.depth % X::kStep;
  const auto ld = ldw * static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t bytes = piece.depth * static_cast<std::int64_t>(sizeof(Element));
  w += row * ldw;
  for (int parity = 0; parity < 2; ++parity) {
    WideRegister s[kWideSums];
#pragma GCC unroll 12
    for (int i = 0; i < kWideSums; ++i)
      s[i] = piece.is_first ? WideRegister{} : load_raw<Lanes::Sum>(tile[parity][i]).raw;
    // A step of each parity is a line of a row.
    const std::byte* const later =
        piece.next + (row + R / 2 * parity) * ld + bytes / piece.num_groups * piece.group;
    add_every_second<X, M>(reinterpret_cast<const std::byte*>(w + parity * X::kStep), ld,
                           piece.x + parity * kXStep, steps - parity,
                           {later, ld, kLineBytes / piece.num_groups}, s);
    if (rest > 0 && steps % 2 == parity) {
      alignas(32) Element padded[R][X::kStep] = {};
      for (int r = 0; r < R; ++r)
        std::memcpy(padded[r], w + r * ldw + steps * X::kStep,
                    static_cast<std::size_t>(rest) * sizeof(Element));
      const auto* last = reinterpret_cast<const std::byte*>(padded);
      add_every_second<X, M>(last, sizeof(padded[0]), piece.x + steps * kXStep, 1, {last, 0, 0}, s);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kWideSums; ++i) store_raw(tile[parity][i], Lanes::Sum{s[i]});
  }
  if (!piece.is_last) return;
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < M; ++i)
      sums[i * kBlockRows + row + r] = X::reduce(X::add(load_raw<Lanes::Sum>(tile[0][r * M + i]),
                                                        load_raw<Lanes::Sum>(tile[1][r * M + i])));
}

// Multiplies `num_rows` rows of W with a piece of M rows of x. The last tile may have rows of the
// one before it.
template <typename X, int M>
void multiply_piece(const RowsArguments& a, const typename X::Element* w, std::int64_t num_rows,
                    const typename X::Element* x, const WidePiece& piece, float* widened,
                    WideTile* tiles, float* sums) {
  constexpr std::int64_t kRows = kWideSums / M;
  widen_piece<X, M>(x, a.ldx, piece.depth, widened);
  for (std::int64_t tile = 0; tile * kRows < num_rows; ++tile)
    multiply_tile<X, M>(w, a.ldw, std::min(tile * kRows, num_rows - kRows), piece, tiles[tile],
                        sums);
}

// Number of rows of W that stream_wide() takes at a time.
inline std::int64_t wide_block(const RowsArguments& a) {
  if (a.k <= kWideDepth) return kWideBlock;
  return std::min(kWideBlock, kWideProducts / a.m / kWideSums * kWideSums);
}

// Sets sums[m][kBlockRows] to `num_rows` rows of W from `begin` on times x. REQUIRES: at least
// three rows of x, and from kFewestWideRows to wide_block() rows of W.
template <typename X>
void stream_wide(const RowsArguments& a, std::int64_t begin, std::int64_t num_rows, float* sums) {
  using Element = typename X::Element;
  // A piece of three rows of x, in two parts.
  alignas(64) float widened[kMostWideRows * kWideDepth];
  alignas(64) WideTile tiles[kWideProducts / kWideSums + kWideBlock];
  const auto* w = static_cast<const Element*>(a.w) + begin * a.ldw;
  const auto* x = static_cast<const Element*>(a.x);
  const std::int64_t num_groups = divide_up(a.m, std::int64_t{kMostWideRows});
  const std::int64_t group_tiles =
      a.k > kWideDepth ? divide_up(num_rows, std::int64_t{kWideSums / kMostWideRows}) : 0;
  for (std::int64_t at = 0; at == 0 || at < a.k; at += kWideDepth)
    for (std::int64_t group = 0; group < num_groups; ++group) {
      // Groups have three rows, and some have two.
      const std::int64_t i = group * a.m / num_groups;
      const std::int64_t count = (group + 1) * a.m / num_groups - i;
      const bool is_last = at + kWideDepth >= a.k;
      const WidePiece piece = {.x = widened,
                               .depth = std::min(kWideDepth, a.k - at),
                               .is_first = at == 0,
                               .is_last = is_last,
                               .next = reinterpret_cast<const std::byte*>(
                                   is_last ? w + num_rows * a.ldw : w + at + kWideDepth),
                               .group = group,
                               .num_groups = num_groups};
      const auto multiply = count == 3 ? multiply_piece<X, 3> : multiply_piece<X, 2>;
      multiply(a, w + at, num_rows, x + i * a.ldx + at, piece, widened, tiles + group * group_tiles,
               sums + i * kBlockRows);
    }
}

}  // namespace
}  // namespace lamina::cpu
