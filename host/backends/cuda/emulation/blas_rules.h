// The sizes and types of products that NVIDIA's documentation of cublasLtMatmul allows.
#pragma once

#include "backends/cuda/emulation/blas_objects.h"

namespace lamina::cuda::emulation {

struct BlasSizes {
  std::int64_t m, n, k;
};

// Sets the sizes of a product, or refuses operands that do not fit each other.
blas::Status sizes_of(const blas::OperationObject& op, const BlasMatrix& a, const BlasMatrix& b,
                      const BlasMatrix& c, const BlasMatrix& d, BlasSizes& out);
blas::Status check_types(const blas::OperationObject& op, const BlasMatrix& a, const BlasMatrix& b,
                         const BlasMatrix& c, const BlasMatrix& d);

}  // namespace lamina::cuda::emulation
