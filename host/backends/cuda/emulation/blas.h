// A fake cuBLASLt for the emulated GPU: products by their documented meaning, as work of a
// stream. Calls that break a rule of NVIDIA's documentation return its status, and status_text()
// has the reason: destroyed objects, sizes and types that do not fit, an algorithm for another
// problem, operands less aligned than the algorithm asks for, too small a workspace, memory outside
// of an allocation, results over operands, FP8 operands without scales of 128 values.
#pragma once

#include <string_view>

#include "backends/cuda/blas/api.h"

namespace lamina::cuda::emulation {

// [any thread]
const blas::Api& blas_api();

// The version of the library, eg 130100, until the end of the object. Scales of 128 values are
// unknown before blas::kScalesOf128Since.
class BlasVersion {
 public:
  explicit BlasVersion(std::size_t version);
  ~BlasVersion();
  BlasVersion(const BlasVersion&) = delete;
  BlasVersion& operator=(const BlasVersion&) = delete;

 private:
  const std::size_t before_;
};

// The next call of the function with this name, eg "cublasLtMatmul", returns the status.
void fail_next_blas_call(std::string_view function, blas::Status status);

// Counts since the start of the process.
struct BlasCalls {
  int searches;  // for algorithms
  int products;
};
BlasCalls blas_calls();

// Number of handles, operations, layouts and preferences that are not destroyed.
int num_blas_objects();

}  // namespace lamina::cuda::emulation
