// Products as kernels, for linear, linear_group and matmul.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernel_support.h"
#include "core/error.h"

namespace lamina::cpu {

// Returns the product for a spec that `supports` accepted.
inline std::unique_ptr<Gemm> make_checked_gemm(const GemmSpec& spec) {
  std::string why;
  std::unique_ptr<Gemm> gemm = make_gemm(spec, &why);
  if (!gemm)
    throw InternalError(
        {"gemm", fmt::format("refuses {} x {} x {}: {}", spec.m, spec.n, spec.k, why), {}});
  return gemm;
}

// Accepts the dtypes that gemm supports for a product's inputs, bias and result.
inline Verdict gemm_takes(DType in, DType out, const Type* bias) {
  for (DType dtype : {in, out, bias ? bias->dtype : in})
    if (!is_fast_dtype(dtype))
      return Verdict::no("takes f32 and bf16, got " + std::string(name(dtype)));
  return Verdict::yes();
}

// Returns the spec of x[rows, in] w[out, in]^T (+ bias) for a linear's types.
inline GemmSpec linear_spec(const Type& x, const Type& w, const Type* bias) {
  GemmSpec spec{.m = num_rows(x), .n = w.dim(0), .k = w.dim(1), .in = x.dtype, .out = x.dtype};
  if (bias) spec.bias = bias->dtype;
  spec.b_stored = w.storage;
  return spec;
}

}  // namespace lamina::cpu
