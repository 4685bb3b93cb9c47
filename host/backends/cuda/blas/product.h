// A product by cuBLASLt: described and prepared once, run many times.
//
//   PreparedProduct product(library, {.m = tokens, .n = outputs, .k = inputs, .in = DType::bf16});
//   product.run(stream, {.a = x, .b = w, .d = y, .workspace = workspace});   // y = x w^T
//
// Sums are in f32 (f64 for f64), in an order that depends on the problem, the GPU, the version of
// the library and the alignment of the operands alone. Operands in f32 are rounded to TF32 only if
// Library::tf32() is true.
//
// Operands in FP8 have scales in f32 of each row and 128 values along k, stored as [k / 128][rows]:
// a sum is over the sums of 128 products, times both scales.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/blas/library.h"
#include "core/dtype.h"
#include "core/error.h"
#include "runtime/memory.h"

namespace lamina::cuda::blas {

// D[m, n] = A[m, k] B[k, n] (+ bias[n]) (+ C), row-major, rounded once to `out`; `batch` of them.
struct ProductSpec {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;  // all positive
  DType in = DType::bf16;                       // of A and B
  DType out = DType::bf16;                      // of C and D
  bool a_transposed = false;                    // A is stored as [k, m]
  bool b_transposed = true;                     // B is stored as [n, k]
  // Elements between stored rows of A, and of C and D; 0: rows are adjacent.
  std::int64_t lda = 0, ldc = 0;
  bool accumulate = false;  // adds C, which may be D
  bool bias = false;        // of type `out`; not for f64
};

// Returns true for the types that cuBLASLt multiplies: f32, bf16 and f16 into themselves or f32,
// and f64 into f64.
bool multiplies(DType in, DType out);

// Operands in f8_e4m3 become bf16 or f32 if m and n are multiples of this, k of kFp8ScaledValues,
// and nothing but B is transposed. REQUIRES: compute capability 9.0, and a version of the library
// since kScalesOf128Since.
inline constexpr std::int64_t kFp8Multiple = 16, kFp8ScaledValues = 128;

// Device addresses; 0 for operands that the spec does not have.
struct Operands {
  Address a = 0, b = 0, c = 0, bias = 0, d = 0, workspace = 0;
  Address a_scales = 0, b_scales = 0;
};

// The library has no algorithm for a problem.
class NoAlgorithm final : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

class PreparedProduct {
 public:
  // Throws NoAlgorithm. REQUIRES: multiplies(in, out), or FP8 as above.
  PreparedProduct(Library& library, const ProductSpec& spec);

  // For any operands; the workspace may begin at any address.
  std::size_t workspace_bytes() const;
  // Enqueues the product on the stream. REQUIRES: a bias at a multiple of 16 bytes; with FP8, all
  // operands. [one thread at a time]
  void run(Stream stream, const Operands& operands) const;

 private:
  template <typename Object>
  using Owned = std::unique_ptr<Object, Status (*)(Object*)>;

  Owned<LayoutObject> make_layout(DType dtype, std::int64_t rows, std::int64_t width,
                                  std::int64_t leading) const;
  void set(OperationAttribute attribute, const void* value, std::size_t bytes) const;
  void set_scales(Address a, Address b) const;
  AlgorithmChoice choose(std::uint32_t alignment) const;
  AlgorithmChoice search(std::uint32_t alignment) const;

  Library& library_;
  ProductSpec spec_;
  Owned<OperationObject> operation_;
  Owned<LayoutObject> a_, b_, d_;
  // For operands that are aligned to vectors, and for others.
  std::array<AlgorithmChoice, 2> choices_;
};

}  // namespace lamina::cuda::blas
