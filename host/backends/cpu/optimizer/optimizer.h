// Updates of flat f32 parameter ranges, and their sums.
//
// Nothing is allocated; results do not depend on the number of threads. [any thread]
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/float16.h"

namespace lamina::cpu {

// Loshchilov & Hutter 2019, with torch's order of operations, g' = grad_scale g:
//   p -= lr weight_decay p;  m = beta1 m + (1 - beta1) g';  v = beta2 v + (1 - beta2) g'^2;
//   p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
struct AdamW {
  float* p;
  const float* g;
  float* m;
  float* v;
  bfloat16* p_bf16 = nullptr;  // optional: the new p rounded, written in the same pass
  std::int64_t n;
  double lr, beta1, beta2, eps;
  double weight_decay;
  float grad_scale;
  double correction1;  // 1 - beta1^t in step t
  double correction2;  // 1 - beta2^t
};
void adamw_step(const AdamW& a);

// Like adamw_step, for a table whose gradient is zero except in the rows of a list
// (embedding/embedding.h). Has the same bits as with the dense gradient, which is never made.
struct AdamWRows {
  AdamW table;              // all rows of the table; its g is the list's: [slots, width]
  const std::int32_t* ids;  // [slots]
  std::int64_t slots;
  std::int64_t width;
  bool lazy = false;  // only rows of the list are read and changed
};
void adamw_rows_step(const AdamWRows& a);

// Returns the sum of x^2 in f64, added in one order.
double sum_of_squares(const float* x, std::int64_t n);

// The numbers of a step, rounded to f32 once.
struct AdamWNumbers {
  float grad_scale, decay, beta1, rest1, beta2, rest2, step_size, root_scale, eps;
};

// The functions of one instruction set, for n elements. A null g means zeros in adamw. Private to
// this folder.
struct OptimizerFunctions {
  void (*adamw)(float* p, const float* g, float* m, float* v, bfloat16* p_bf16, std::int64_t n,
                const AdamWNumbers& a);
  double (*sum_of_squares)(const float* x, std::int64_t n);

  static const OptimizerFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
