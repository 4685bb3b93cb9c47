// Rows of tokens gathered for experts, and their results combined per token. `order` has
// assignments m * k + j; `places` is its inverse: the row of each assignment.
//
// No result depends on the number of threads. [any thread]
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

// y[m] = sum over j of weights[m, j] * x[places[m * k + j]], in the order of j, in f32.
struct CombineRows {
  std::int64_t num_tokens;  // M
  std::int64_t k;           // assignments per token
  std::int64_t width;
  DType dtype;  // of x and y: f32 or bf16
  const void* x;
  const std::int32_t* places;
  const float* weights;
  void* y;
};
void combine_rows(const CombineRows& p);

// dx[r] = weights[order[r]] * dy[order[r] / k]; dweights[order[r]] = x[r] . dy[order[r] / k].
struct CombineRowsGrad {
  std::int64_t num_rows;  // M * k
  std::int64_t k;
  std::int64_t width;
  DType dtype;  // of x, dy and dx: f32 or bf16
  const void* x;
  const std::int32_t* order;
  const float* weights;
  const void* dy;
  void* dx;
  float* dweights;  // nullptr: not computed
};
void combine_rows_grad(const CombineRowsGrad& p);

// The functions of one instruction set, for tokens, or rows, [begin, end). Private to this folder.
struct RowsFunctions {
  void (*combine)(const CombineRows& p, std::int64_t begin, std::int64_t end);
  void (*combine_grad)(const CombineRowsGrad& p, std::int64_t begin, std::int64_t end);

  static const RowsFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
