// Products of rows in groups by tensor cores, with matrices that are stored in blocks and rounded
// to bf16: grouped_mma.h. Blocks are decoded on the way to shared memory.
#include "backends/cuda/gemm/grouped_mma.h"
#include "backends/cuda/stored/blocks.h"

namespace lamina::cuda {
namespace {

template <typename Format, typename T>
struct StoredOperand {
  stored::StoredBytes at;
  int rows, width;
  std::int64_t row_bytes;

  static constexpr bool along_k = true;

  LAMINA_GPU_FUNCTION void copy(int row, int column, gpu::Shared<T> to) const {
    gpu::Vector<T, kMmaUnit> unit{};
    if (row < rows && column < width) {
      float values[kMmaUnit];
      Format::widen8(at + (row * row_bytes + column / Format::kValues * Format::kBytes),
                     column % Format::kValues, values);
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kMmaUnit; ++i) unit.values[i] = gpu::narrow<T>(values[i]);
    }
    gpu::store_vector(to, 0, unit);
  }
};

// Rows of x have whole units, because blocks have.
template <typename Format>
LAMINA_GPU_FUNCTION void grouped_stored(const GroupedParams& p) {
  using T = gpu::bfloat16;
  const std::int64_t row_bytes = std::int64_t{p.k / Format::kValues} * Format::kBytes;
  grouped_mma<T, 64, true>(p, [&](int group) {
    return StoredOperand<Format, T>{stored::StoredBytes(p.w) + group * p.n * row_bytes, p.n, p.k,
                                    row_bytes};
  });
}

}  // namespace

#define LAMINA_GROUPED_STORED(name, Format)                                        \
  LAMINA_GPU_KERNEL_BOUNDS(grouped_##name##_bf16, GroupedParams, kMmaThreads, 2) { \
    grouped_stored<stored::Format>(p);                                             \
  }
LAMINA_STORED_FORMATS(LAMINA_GROUPED_STORED)
#undef LAMINA_GROUPED_STORED

}  // namespace lamina::cuda
