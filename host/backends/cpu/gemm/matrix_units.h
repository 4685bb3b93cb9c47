// The two matrix units (matrix_unit.h): in plain C++, and by Intel's AMX. Internal to each file
// that includes it.
#pragma once

#include <cstddef>
#include <cstring>

#include "backends/cpu/gemm/matrix_unit.h"
#include "core/error.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lamina::cpu {
namespace {

// ---- In plain C++, by the definitions in Intel's manual (volume 2, TDPBF16PS, TDPBSSD) ----------

// Numbers below 2^-126 are 0 as operands and as results, and sums round to nearest even, during the
// life of the object: the unit does so whatever the settings of the thread are.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  FlushSubnormals() : before_(_mm_getcsr()) {
    constexpr unsigned kZeroOperands = 1u << 6, kMaskAll = 0x1f80, kZeroResults = 1u << 15;
    _mm_setcsr(kZeroOperands | kMaskAll | kZeroResults);
  }
  ~FlushSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#else
  FlushSubnormals() = default;
  ~FlushSubnormals() {}
#endif

 public:
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
};

inline float first_of_pair(std::uint32_t pair) {
  const std::uint32_t bits = pair << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}
inline float second_of_pair(std::uint32_t pair) {
  const std::uint32_t bits = pair & 0xffff0000u;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

struct PlainTile {
  static constexpr int kRows = 16, kWords = 16;
  std::uint32_t words[kRows][kWords];
};

struct PlainState {
  TileShapes shapes;
  PlainTile tiles[8];
};

// sums[column] += the products of a row of `pairs` pairs with the columns of b. First elements and
// second elements of pairs have separate sums, in order; their sum is added to the old one.
[[gnu::noinline]] inline void add_pairs(const std::uint32_t* a, const PlainTile& b, int pairs,
                                        float* sums) {
  alignas(64) float first[PlainTile::kWords] = {}, second[PlainTile::kWords] = {};
  for (int p = 0; p < pairs; ++p) {
    const float x = first_of_pair(a[p]), y = second_of_pair(a[p]);
    for (int n = 0; n < PlainTile::kWords; ++n) {
      first[n] = __builtin_fmaf(x, first_of_pair(b.words[p][n]), first[n]);
      second[n] = __builtin_fmaf(y, second_of_pair(b.words[p][n]), second[n]);
    }
  }
  for (int n = 0; n < PlainTile::kWords; ++n) sums[n] = sums[n] + (first[n] + second[n]);
}

template <bool kSigned>
std::int32_t byte_of(std::uint32_t word, int i) {
  const auto byte = static_cast<std::uint8_t>(word >> (8 * i));
  return kSigned ? static_cast<std::int32_t>(static_cast<std::int8_t>(byte))
                 : static_cast<std::int32_t>(byte);
}

struct PlainTiles {
  static PlainState& state() {
    thread_local PlainState state;
    return state;
  }

  static void configure(const TileShapes& shapes) {
    for (std::size_t t = 0; t < shapes.rows.size(); ++t)  // else the unit faults
      LAMINA_ASSERT(shapes.rows[t] <= PlainTile::kRows &&
                    shapes.row_bytes[t] <= 4 * PlainTile::kWords);
    state().shapes = shapes;
    for (PlainTile& tile : state().tiles) tile = {};
  }
  static void release() { state().shapes = {}; }

  template <int t>
  static void zero() {
    state().tiles[t] = {};
  }
  // Words of a row that the tile does not have, and rows that it does not have, are 0.
  template <int t>
  static void load(const void* from, std::int64_t step) {
    zero<t>();
    each_row(t, [&](int row, std::size_t bytes) {
      std::memcpy(state().tiles[t].words[row], static_cast<const std::byte*>(from) + row * step,
                  bytes);
    });
  }
  template <int t>
  static void load_past_l1(const void* from, std::int64_t step) {
    load<t>(from, step);
  }
  template <int t>
  static void store(void* to, std::int64_t step) {
    each_row(t, [&](int row, std::size_t bytes) {
      std::memcpy(static_cast<std::byte*>(to) + row * step, state().tiles[t].words[row], bytes);
    });
  }

  template <int c, int a, int b>
  static void multiply_bf16() {
    check(c, a, b);
    const FlushSubnormals flush;
    PlainState& s = state();
    for (int row = 0; row < s.shapes.rows[c]; ++row) {
      float sums[PlainTile::kWords];
      std::memcpy(sums, s.tiles[c].words[row], sizeof sums);
      add_pairs(s.tiles[a].words[row], s.tiles[b], s.shapes.row_bytes[a] / 4, sums);
      std::memcpy(s.tiles[c].words[row], sums, s.shapes.row_bytes[c]);
    }
  }

  template <int c, int a, int b, Signs signs>
  static void multiply_int8() {
    check(c, a, b);
    constexpr bool kSignedA = signs == Signs::ss || signs == Signs::su;
    constexpr bool kSignedB = signs == Signs::ss || signs == Signs::us;
    PlainState& s = state();
    for (int row = 0; row < s.shapes.rows[c]; ++row)
      for (int p = 0; p < s.shapes.row_bytes[a] / 4; ++p)
        for (int n = 0; n < s.shapes.row_bytes[c] / 4; ++n)
          for (int i = 0; i < 4; ++i)  // sums wrap
            s.tiles[c].words[row][n] +=
                static_cast<std::uint32_t>(byte_of<kSignedA>(s.tiles[a].words[row][p], i) *
                                           byte_of<kSignedB>(s.tiles[b].words[p][n], i));
  }

 private:
  template <typename Row>
  static void each_row(int t, const Row& row) {
    LAMINA_ASSERT(state().shapes.rows[static_cast<std::size_t>(t)] > 0);  // else the unit faults
    for (int r = 0; r < state().shapes.rows[static_cast<std::size_t>(t)]; ++r)
      row(r, state().shapes.row_bytes[static_cast<std::size_t>(t)]);
  }
  // The unit faults for shapes that do not match.
  static void check(std::size_t c, std::size_t a, std::size_t b) {
    const TileShapes& s = state().shapes;
    LAMINA_ASSERT(c != a && c != b && a != b);
    LAMINA_ASSERT(s.rows[c] > 0 && s.rows[c] == s.rows[a] && s.row_bytes[c] == s.row_bytes[b] &&
                  s.row_bytes[a] == 4 * s.rows[b]);
  }
};

#if defined(__x86_64__)

// ---- By AMX -------------------------------------------------------------------------------------
//
// In assembly: GCC's intrinsics take the number of a tile as a literal, not as a constant of a
// template, and need options that other code of the file must not be compiled with. The order of
// operands is the assembler's: b, a, c.

struct AmxTiles {
  static void configure(const TileShapes& shapes) {
    struct Config {  // Intel's manual, volume 1, table 18-8
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {};
      std::uint8_t rows[16] = {};
    };
    alignas(64) Config config;
    static_assert(sizeof config == 64);
    for (std::size_t i = 0; i < shapes.rows.size(); ++i) {
      config.rows[i] = shapes.rows[i];
      config.row_bytes[i] = shapes.rows[i] > 0 ? shapes.row_bytes[i] : 0;
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static void release() { asm volatile("tilerelease"); }

  template <int t>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  template <int t>
  static void load(const void* from, std::int64_t step) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(step), "i"(t) : "memory");
  }
  template <int t>
  static void load_past_l1(const void* from, std::int64_t step) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(step), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* to, std::int64_t step) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(step), "i"(t) : "memory");
  }
  template <int c, int a, int b>
  static void multiply_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
  template <int c, int a, int b, Signs signs>
  static void multiply_int8() {
    if constexpr (signs == Signs::ss)
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
    if constexpr (signs == Signs::su)
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
    if constexpr (signs == Signs::us)
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
    if constexpr (signs == Signs::uu)
      asm volatile("tdpbuud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }
};

#endif

}  // namespace
}  // namespace lamina::cpu
