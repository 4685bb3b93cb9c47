// The general matrix product for training, prefill and decoding.
//
//   std::string why;
//   auto gemm = make_gemm({.m = tokens, .n = out, .k = in}, &why);   // y[m,n] = x[m,k] * W[n,k]^T
//   gemm->run(x, w, nullptr, y, workspace);
//
// The result's bits depend on the spec, the instruction set and the matrix unit (matrix_unit.h),
// never on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "formats/block_formats.h"

namespace lamina::cpu {

// C[m,n] = A[m,k] * B[k,n] (+ bias[n]) (+ C), summed in f32 and rounded once to `out`.
struct GemmSpec {
  std::int64_t m = 0, n = 0, k = 0;
  DType in = DType::bf16;     // of A and B: bf16 or f32
  DType out = DType::bf16;    // of C: bf16 or f32
  bool a_transposed = false;  // A is stored as [k, m]
  bool b_transposed = true;   // B is stored as [n, k], as checkpoints store weights [out, in]
  std::int64_t lda = 0;       // elements between stored rows of A; 0: rows are adjacent
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  bool accumulate = false;    // adds to the values of C
  bool is_read_late = false;  // C is not read soon, so it need not stay in caches; the same bits
  std::optional<DType> bias;  // bf16 or f32
  // The format of B, whose rows are adjacent then; null: plain. If B is transposed and `in` is
  // bf16, A is quantised for values that are integers times scales (stored/prepared_rows.h), and
  // few rows are multiplied with FP8 values before their scales. Else the bits are the same as for
  // B widened to `in`, which only oneDNN's products of a transposed B store whole.
  const formats::BlockFormat* b_stored = nullptr;
};

// Returns the spec with default strides in place of 0.
GemmSpec with_defaults(GemmSpec spec);

// A product that is ready to run: run() allocates no memory itself and takes no locks.
class Gemm {
 public:
  virtual ~Gemm() = default;

  // Scratch memory that run() needs; any content, 64-byte aligned.
  virtual std::size_t workspace_bytes() const = 0;

  // `bias` is ignored when the spec has none. C must not overlap A, B or the workspace.
  // [one run at a time per object; not with a larger pool than when it was made]
  virtual void run(const void* a, const void* b, const void* bias, void* c,
                   std::byte* workspace) const = 0;

  // Returns the name of the chosen kernel, for `lamina explain`, eg: "rows avx512_bf16".
  virtual std::string_view kernel() const = 0;
};

// Chooses and prepares the kernel. Returns nullptr, with the reason in *why, if no kernel accepts
// the spec: element types other than bf16 and f32, a negative dimension, a row stride shorter than
// a row. For k = 0 the result is the bias (or zero); for m = 0 or n = 0 it is empty. [any thread]
std::unique_ptr<Gemm> make_gemm(const GemmSpec& spec, std::string* why);

}  // namespace lamina::cpu
