// Products as kernels, for linear, linear_group and matmul.
#pragma once

#include <memory>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

// Returns the product for a spec that `supports` accepted.
std::unique_ptr<Gemm> make_checked_gemm(const GemmSpec& spec);

// Accepts the dtypes that gemm supports for a product's inputs, bias and result.
Verdict gemm_takes(DType in, DType out, const Type* bias);

// Returns the spec of x[rows, in] w[out, in]^T (+ bias) for a linear's types.
GemmSpec linear_spec(const Type& x, const Type& w, const Type* bias);

}  // namespace lamina::cpu
