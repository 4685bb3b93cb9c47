#include "backends/cuda/gemm/fp8_operand.h"

#include "backends/cuda/blas/product.h"
#include "backends/cuda/gemm/params.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {

Fp8Operand::Fp8Operand(Context& context, Source source, std::int64_t most_rows, std::int64_t width)
    : function_(function(
          context, source == Source::bf16_rows ? "fp8_operand_of_rows" : "fp8_operand_of_blocks")),
      width_(width),
      numbers_bytes_(aligned(static_cast<std::size_t>(padded(most_rows) * width))),
      scales_bytes_(aligned(
          static_cast<std::size_t>(padded(most_rows) * (width / blas::kFp8ScaledValues) * 4))) {
  LAMINA_ASSERT(width % blas::kFp8ScaledValues == 0);
}

std::int64_t Fp8Operand::padded(std::int64_t rows) { return round_up(rows, blas::kFp8Multiple); }

std::size_t Fp8Operand::bytes() const { return numbers_bytes_ + scales_bytes_; }

void Fp8Operand::write(const KernelArgs& args, const void* x, std::int64_t rows,
                       std::byte* to) const {
  constexpr int kThreads = 256, kGroupsOfBlock = kThreads / 32;
  const Fp8OperandParams params{.x = address(x),
                                .numbers = address(to),
                                .scales = address(scales(to)),
                                .rows = rows,
                                .padded_rows = padded(rows),
                                .width = width_,
                                .x_vectors = address(x).value % 8 == 0};
  const std::int64_t groups = params.padded_rows * (width_ / blas::kFp8ScaledValues);
  launch(args, function_, {.blocks = grid_for(groups, kGroupsOfBlock), .threads = kThreads},
         params);
}

}  // namespace lamina::cuda
