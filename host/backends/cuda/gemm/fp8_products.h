// Products of rows in bf16 with weights that are stored in FP8, on request: the rows are rounded to
// FP8, so that tensor cores multiply FP8 operands (docs/cuda.md, Products).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/blas/product.h"
#include "graph/type.h"
#include "runtime/kernel.h"

namespace lamina::cuda {

// Decides for all open GPUs together, so that replicas run the same kernels: the switch
// LAMINA_GPU_FP8=1, types, layout, GPUs and the version of cuBLASLt. [any thread]
Verdict takes_fp8_products(const Type& x, const Type& w, const blas::ProductSpec& spec);

// One product of input 0. Inputs by their numbers; -1: none.
struct Fp8Product {
  blas::ProductSpec spec;
  int w, bias = -1, addend = -1;
  std::optional<DType> bias_type = {};
};
// Output i is the result of product i. Returns null, after a warning, if cuBLASLt has no algorithm
// for one of them. REQUIRES: takes_fp8_products() for each.
std::unique_ptr<Kernel> make_fp8_products(Context& context, std::vector<Fp8Product> products);

}  // namespace lamina::cuda
