// Products by oneDNN: of one fixed shape on the calling thread, or tile by tile on the threads of
// the pool. Only onednn.cc uses its API (2.6 to 3.x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/gemm/gemm.h"
#include "core/dtype.h"

namespace lamina::cpu {

// Opens the library on the first call, because its 40 MB and its OpenMP take longer to load than
// the rest of the program (docs/adr/0013). Returns the reason if it cannot be used, else "". After
// "" its C functions, which are null before, can be called. Throws std::bad_alloc if there is no
// memory for it. [any thread]
const std::string& open_onednn();

// Get and set the maximum number of threads that oneDNN's OpenMP starts. If oneDNN does not use
// OpenMP, the number is 1, and setting it has no effect. REQUIRES: open_onednn() returned "".
int onednn_threads();
void set_onednn_threads(int threads);

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

// Makes a product by tiles. Returns nullptr and a reason in *why if oneDNN has no fast kernel.
// REQUIRES: all strides of the spec are set, and no dim is 0.
std::unique_ptr<Gemm> make_onednn_gemm(const GemmSpec& spec, std::string* why);

}  // namespace lamina::cpu
