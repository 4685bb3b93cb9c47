// Updates of flat f32 parameter ranges, and the sums and checks around them.
//
//   const double squares = sum_of_squares(g, n);
//   const float scale = static_cast<float>(std::min(1.0, clip / (std::sqrt(squares) + 1e-6)));
//   adamw_step({.p = p, .g = g, .m = m, .v = v, .p_bf16 = copy, .n = n, .lr = 3e-4, .beta1 = 0.9,
//               .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = 1, .grad_scale = scale});
//
// Nothing is allocated; results do not depend on the number of threads. [any thread]
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/float16.h"

namespace lamina::cpu {

// Loshchilov & Hutter 2019, with torch's order of operations, t = step, g' = grad_scale g:
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
  std::int64_t step;  // from 1; 0: the two corrections below are given
  float grad_scale = 1.0f;
  double correction1 = 0;  // 1 - beta1^t
  double correction2 = 0;  // 1 - beta2^t
};
void adamw_step(const AdamW& a);

// As adamw_step, for a table whose gradient is zero but for the rows of a list (embedding_rows.h).
// The bits are those of the whole gradient, which is never made.
struct AdamWRows {
  AdamW table;              // of all rows; its g is the list's: [slots, width]
  const std::int32_t* ids;  // [slots]
  std::int64_t slots;
  std::int64_t width;
  bool lazy = false;  // only rows of the list change, and only they are read
};
void adamw_rows_step(const AdamWRows& a);

// g' = grad_scale g + weight_decay p;  m = momentum m + g';  p -= lr m   (nesterov: g' + momentum
// m)
struct Sgd {
  float* p;
  const float* g;
  float* m = nullptr;  // not needed for momentum 0
  bfloat16* p_bf16 = nullptr;
  std::int64_t n;
  double lr;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  float grad_scale = 1.0f;
};
void sgd_step(const Sgd& s);

// Sum of x^2 in f64, added up in one order.
double sum_of_squares(const float* x, std::int64_t n);

// The index of the first infinity or NaN among f32 or bf16 numbers, or -1.
std::int64_t first_non_finite(const void* x, DType dtype, std::int64_t n);

// y += scale * x, x in f32 or bf16.
void add_scaled(float* y, const void* x, DType x_dtype, float scale, std::int64_t n);
// x *= scale.
void scale_in_place(float* x, float scale, std::int64_t n);
void fill(float* x, float value, std::int64_t n);

}  // namespace lamina::cpu
