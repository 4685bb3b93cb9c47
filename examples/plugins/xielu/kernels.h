// The parameters of the kernels for GPUs, for kernels.cu and model.cc.
#pragma once

#include <cstdint>

namespace xielu {

// A tensor of float32 or bfloat16 in memory of the GPU.
struct Numbers {
  void* at;
  std::int64_t is_bf16;
};

struct ForwardParams {
  Numbers x, p, n, y;
  std::int64_t count;  // elements of x
  float beta;
};

struct BackwardParams {
  Numbers x, p, n, dy, dx;
  float* sums;  // [rows, 2]
  std::int64_t rows, width;
  float beta;
};

struct SumParams {
  const float* sums;
  Numbers p, n, dp, dn;
  std::int64_t rows;
};

}  // namespace xielu
