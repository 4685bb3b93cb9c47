// The table of flat-range functions of one instruction set. Private to optimizer*.cc.
#pragma once

#include "backends/cpu/optimizer/optimizer.h"

namespace lamina::cpu {

// The numbers of a step, rounded to f32 once.
struct AdamWNumbers {
  float grad_scale, decay, beta1, rest1, beta2, rest2, step_size, root_scale, eps;
};

// Functions for n elements. A null g means zeros in adamw.
struct OptimizerFunctions {
  void (*adamw)(float* p, const float* g, float* m, float* v, bfloat16* p_bf16, std::int64_t n,
                const AdamWNumbers& a);
  double (*sum_of_squares)(const float* x, std::int64_t n);

  static const OptimizerFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
