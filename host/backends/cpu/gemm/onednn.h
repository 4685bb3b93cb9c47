// Single-threaded oneDNN products of one fixed shape. Only its source file uses the API of oneDNN
// (2.6 to 3.x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/dtype.h"

namespace lamina::cpu {

// C[m,n] (+)= A[m,k] * B[k,n] (+ bias[n]). Strides are in elements; in A and B one of the two is 1.
struct OnednnShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row_stride = 0, a_col_stride = 0;
  std::int64_t b_row_stride = 0, b_col_stride = 0;
  std::int64_t ldc = 0;
  DType in = DType::bf16;
  DType out = DType::f32;
  std::optional<DType> bias;
  bool accumulate = false;
};

struct OnednnPointers {
  const void* a;
  const void* b;
  const void* bias;
  void* c;
  std::byte* scratch;  // scratch_bytes(), 64-byte aligned
};

// Compiled once, then run from several threads at a time, each with a different `thread` number.
// The product itself never starts threads.
class OnednnProduct {
 public:
  // Returns nullptr and a reason in *why if oneDNN has no fast kernel for the shape.
  static std::unique_ptr<OnednnProduct> make(const OnednnShape& shape, int num_threads,
                                             std::string* why);
  ~OnednnProduct();

  std::size_t scratch_bytes() const;
  void run(int thread, const OnednnPointers& pointers) const;

 private:
  struct State;
  explicit OnednnProduct(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lamina::cpu
