// The tile product in plain C++; the compiler vectorises the fixed-size loops for the baseline.
namespace lamina::cpu {
namespace {

struct Vector {
  static constexpr int kLanes = 4;
  static constexpr int kRows = 4;
  static constexpr int kVectors = 2;
  using Type = float __attribute__((vector_size(4 * kLanes)));
  static Type load(const float* p) { return Type{p[0], p[1], p[2], p[3]}; }
  static void store(float* p, Type x) {
    for (int i = 0; i < kLanes; ++i) p[i] = x[i];
  }
  static Type broadcast(float x) { return Type{x, x, x, x}; }
  static Type fma(Type a, Type b, Type sum) { return a * b + sum; }
};

}  // namespace
}  // namespace lamina::cpu

#include "backends/cpu/gemm/tile_kernel.h"

namespace lamina::cpu {

void gemm_tile_portable(const TileArguments& arguments) { multiply_tile(arguments); }

}  // namespace lamina::cpu
