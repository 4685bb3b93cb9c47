// The choice of an algorithm of cuBLASLt for a problem.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/blas/api.h"

namespace lamina::cuda::blas {

// All facts that the choice of an algorithm depends on. The library's version and the GPU do not
// change for the life of a Library.
struct ProblemKey {
  std::int64_t batch, m, n, k, lda, ldc;  // other strides follow from them
  std::int32_t compute, in, out;  // ComputeType; DataType of operands, with the scales of FP8
  bool a_transposed, b_transposed, accumulate, bias;
  std::uint64_t alignment;  // of all operands, bytes
  friend auto operator<=>(const ProblemKey&, const ProblemKey&) = default;
};

struct AlgorithmChoice {
  Algorithm algorithm;
  std::size_t workspace_bytes;
};

}  // namespace lamina::cuda::blas
