// What linear, linear_group and matmul share: products as kernels.
#pragma once

#include <memory>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

// The product for a spec that `supports` has said yes to.
std::unique_ptr<Gemm> make_checked_gemm(const GemmSpec& spec);

// Yes when gemm takes the dtypes of a product's inputs, bias and result.
Verdict gemm_takes(DType in, DType out, const Type* bias);

// x[rows, in] w[out, in]^T (+ bias) of a linear's types.
GemmSpec linear_spec(const Type& x, const Type& w, const Type* bias);

}  // namespace lamina::cpu
