// One product of the fake cuBLASLt, with its operands in memory that the host can access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/blas/api.h"

namespace lamina::cuda::emulation {

// A matrix in column-major order: element (i, j) is at i + j * leading.
struct BlasMatrix {
  blas::DataType type = blas::DataType::r_32f;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;

  // Returns the bytes from the first element to the end of the last one.
  std::int64_t bytes() const;
};

struct BlasProduct {
  std::int64_t m, n, k;  // of op(A)[m, k] op(B)[k, n]
  bool a_transposed, b_transposed;
  blas::ComputeType compute;
  double alpha, beta;
  BlasMatrix a, b, c, d;
  const std::byte *a_at, *b_at, *c_at;
  std::byte* d_at;
  const std::byte* bias;  // [m] of D's type, or null
  // In f32, [k / 128][m] and [k / 128][n]; null if the operands are not FP8.
  const std::byte *a_scales, *b_scales;
  int first_part;  // of the parts of a sum, which are added in rising order from here
};

std::size_t bytes_of(blas::DataType type);
void compute(const BlasProduct& product);

}  // namespace lamina::cuda::emulation
