// The kernels of few_rows.cu, prepared for one x and several matrices.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/gemm/params.h"
#include "backends/cuda/launch.h"
#include "formats/block_formats.h"

namespace lamina::cuda {

struct FewRowsSpec {
  struct Matrix {
    std::int64_t n;
    std::optional<DType> bias;
  };
  std::int64_t num_rows = 0, k = 0;
  DType in = DType::bf16, out = DType::bf16;     // in: f32 or bf16, out: floating
  std::int64_t num_groups = 0;                   // 0: all rows are one group
  const formats::BlockFormat* stored = nullptr;  // of all matrices; null: plain
  std::vector<Matrix> matrices;
};

// y[rows, n] = x[rows, k] w[n, k]^T (+ bias[n]) for each matrix; with groups w is [groups, n, k]
// and bias [groups, n]. Sums in f32, rounded once. Takes any number of rows, and reads w once for
// each kFewRows of them.
class FewRows {
 public:
  struct Operands {
    const void *w, *bias;
    void* y;
  };

  FewRows(Context& context, const FewRowsSpec& spec);
  std::int64_t num_rows() const { return spec_.num_rows; }
  void run(const KernelArgs& args, const void* x, const void* offsets,
           std::span<const Operands> operands) const;

 private:
  void launch_some(const KernelArgs& args, const void* x, const void* offsets, std::size_t first,
                   std::span<const Operands> operands) const;

  struct Kernel {
    Function function;
    int outputs;  // rows of w that a warp computes
  };

  FewRowsSpec spec_;
  Kernel vectors_;  // if rows of w begin at multiples of 16 bytes; all stored ones
  Kernel numbers_;  // otherwise
  FewRowsParams params_ = {};
};

// The type of numbers of a floating dtype.
NumberType number_type(DType dtype);

// Returns the most tiles of rows that the rows can need: row_tiles.h.
std::int64_t max_row_tiles(std::int64_t num_rows, std::int64_t num_groups, int tile_rows);

// True if all addresses are multiples of 16 bytes.
template <typename... Pointers>
bool are_vectors(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace lamina::cuda
