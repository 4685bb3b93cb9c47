// The tile product with 256-bit FMA: 12 sums of 8 lanes.
#include <immintrin.h>

namespace lamina::cpu {
namespace {

struct Vector {
  using Type = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kRows = 4;
  static constexpr int kVectors = 3;
  static Type load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Type x) { _mm256_storeu_ps(p, x); }
  static Type broadcast(float x) { return _mm256_set1_ps(x); }
  static Type fma(Type a, Type b, Type sum) { return _mm256_fmadd_ps(a, b, sum); }
};

}  // namespace
}  // namespace lamina::cpu

#include "backends/cpu/gemm/tile_kernel.h"

namespace lamina::cpu {

void gemm_tile_avx2(const TileArguments& arguments) { multiply_tile(arguments); }

}  // namespace lamina::cpu
