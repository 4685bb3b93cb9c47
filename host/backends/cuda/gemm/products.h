// Products of many rows: by cuBLASLt, whose weights are plain.
#pragma once

#include <memory>
#include <optional>

#include "backends/cuda/blas/product.h"
#include "backends/cuda/gemm/fp8_operand.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/stored/widen.h"

namespace lamina::cuda {

// A product whose bias may begin at any element and is rounded to the result's type if it is f32,
// and whose B may be stored in
// blocks ([n, k], without a batch): then panels of its rows are widened to the workspace, one after
// the other; for FP8 operands they keep their values there.
class LargeProduct {
 public:
  // `bias`: its type, where the spec has one: f32 or spec.out.
  // REQUIRES: blas::multiplies(spec.in, spec.out), or FP8 as blas/product.h says with B in FP8.
  LargeProduct(Context& context, const blas::ProductSpec& spec,
               const formats::BlockFormat* stored = nullptr, std::optional<DType> bias = {});

  std::size_t workspace_bytes() const;
  // c: the sum to add to, or null. a_scales: for FP8 operands. Products of size 0 do nothing.
  void run(const KernelArgs& args, const void* a, const void* b, const void* bias, const void* c,
           void* d, const void* a_scales = nullptr) const;

 private:
  blas::ProductSpec spec_;
  const formats::BlockFormat* stored_;
  Function round_bias_ = nullptr;  // null: the bias has the result's type
  std::size_t bias_bytes_ = 0;     // of a rounded or copied bias, where the workspace begins
  std::int64_t panel_rows_ = 0;
  std::size_t panel_bytes_ = 0;
  std::optional<Widener> widener_;
  std::optional<Fp8Operand> fp8_;
  std::unique_ptr<blas::PreparedProduct> product_;  // of a panel; null if the product has size 0
  std::unique_ptr<blas::PreparedProduct> rest_;     // of the last panel, if that is smaller
};

}  // namespace lamina::cuda
