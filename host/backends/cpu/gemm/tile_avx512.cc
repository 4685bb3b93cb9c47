// The tile product with 512-bit FMA: 24 sums of 16 lanes.
#include <immintrin.h>

namespace lamina::cpu {
namespace {

struct Vector {
  using Type = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kRows = 8;
  static constexpr int kVectors = 3;
  static Type load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Type x) { _mm512_storeu_ps(p, x); }
  static Type broadcast(float x) { return _mm512_set1_ps(x); }
  static Type fma(Type a, Type b, Type sum) { return _mm512_fmadd_ps(a, b, sum); }
};

}  // namespace
}  // namespace lamina::cpu

#include "backends/cpu/gemm/tile_kernel.h"

namespace lamina::cpu {

void gemm_tile_avx512(const TileArguments& arguments) { multiply_tile(arguments); }

}  // namespace lamina::cpu
