// The matrix product of all attention kernels: C = A * B, C += A * B.
//
// C is f32 [rows, columns], B is stored as words [depth, columns]. A is broadcast word by word:
// from rows of words (kAcross = false: A[row * a_stride + depth]) or from its transpose (kAcross =
// true: A[depth * a_stride + row]). A word is a float, or, with kPairs, two bf16 that are
// neighbours along the sum.
#pragma once

#include <cstdint>

#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

enum class Store { scaled, add, rescaled };  // C = f * AB; C = C + AB; C = C * column_factors + AB

struct Product {
  std::int64_t rows, columns, depth;  // columns: a multiple of the lanes
  const Word* a;
  std::int64_t a_stride;
  const Word* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  Store store = Store::add;
  float factor = 1;
  const float* column_factors = nullptr;
};

}  // namespace
}  // namespace lamina::cpu
