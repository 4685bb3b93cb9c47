// The unit of tiles by Intel's AMX, for x86-64. Internal to each file that includes it.
//
// In assembly: GCC's intrinsics take the number of a tile as a literal, not as a constant of a
// template, and need options that other code of the file must not be compiled with. The order of
// operands is the assembler's: b, a, c.
#pragma once

#include "backends/cpu/gemm/tile_unit.h"

namespace lamina::cpu {
namespace {

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

}  // namespace
}  // namespace lamina::cpu
