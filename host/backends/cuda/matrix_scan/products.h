// Products of small matrices in shared memory, by all threads of a block.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {
namespace {

// Calls out(row, column, sum over i in [0, inner) of a(row, i) b(i, column)) once for each element,
// by the same thread in every call with these sizes. `rows` is a multiple of 4. A thread computes
// four rows of a column, so that it reads five numbers for four multiplications; neighbouring
// threads have neighbouring columns.
template <typename A, typename B, typename Out>
LAMINA_GPU_FUNCTION void multiply(int rows, int columns, int inner, const A& a, const B& b,
                                  const Out& out) {
  constexpr int kRows = 4;
  for (int at = gpu::thread_index(); at < rows / kRows * columns; at += gpu::num_threads()) {
    const int row = at / columns * kRows, column = at % columns;
    float sum[kRows] = {};
    for (int i = 0; i < inner; ++i) {
      const float right = b(i, column);
      LAMINA_GPU_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r] = gpu::fma(a(row + r, i), right, sum[r]);
    }
    LAMINA_GPU_UNROLL
    for (int r = 0; r < kRows; ++r) out(row + r, column, sum[r]);
  }
}

// A matrix in shared memory; rows have `stride` numbers, an odd number so that columns are read
// without conflicts too.
struct SharedMatrix {
  gpu::Shared<float> at;
  int stride = 0;

  LAMINA_GPU_FUNCTION float operator()(int row, int column) const {
    return at[row * stride + column];
  }
  LAMINA_GPU_FUNCTION void set(int row, int column, float x) const {
    at[row * stride + column] = x;
  }
  LAMINA_GPU_FUNCTION void add(int row, int column, float x) const {
    at[row * stride + column] += x;
  }
  LAMINA_GPU_FUNCTION gpu::Shared<float> row(int row) const { return at + row * stride; }
  LAMINA_GPU_FUNCTION SharedMatrix from_row(int row) const { return {at + row * stride, stride}; }
  LAMINA_GPU_FUNCTION void clear(int rows) const {
    for (int i = gpu::thread_index(); i < rows * stride; i += gpu::num_threads()) at[i] = 0;
  }
};

// Takes matrices of floats from dynamic shared memory, one after the other. The host computes the
// same sum for the launch.
class SharedArena {
 public:
  LAMINA_GPU_FUNCTION SharedMatrix matrix(int rows, int columns) {
    const int stride = columns | 1;
    const SharedMatrix out{next_, stride};
    next_ = next_ + rows * stride;
    return out;
  }
  LAMINA_GPU_FUNCTION gpu::Shared<float> numbers(int count) {
    const gpu::Shared<float> out = next_;
    next_ = next_ + count;
    return out;
  }

 private:
  gpu::Shared<float> next_ = gpu::dynamic_shared<float>();
};

}  // namespace
}  // namespace lamina::cuda
