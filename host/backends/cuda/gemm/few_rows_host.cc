#include "backends/cuda/gemm/few_rows_host.h"

#include <algorithm>

#include "backends/cuda/stored/widen.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda {
namespace {

// Shared memory for rows of x: so little that blocks fill a multiprocessor.
constexpr std::int64_t kSharedBytes = 32 << 10;
constexpr std::int64_t kWarps = kFewRowsThreads / 32;
// A warp computes several rows of w if the GPU is full nevertheless: an H200 has 132
// multiprocessors, each with 2 of these blocks.
constexpr std::int64_t kFullBlocks = 264;

int outputs_of_warp(const FewRowsSpec& spec) {
  if (spec.stored) return 1;
  std::int64_t outputs = 0;
  for (const FewRowsSpec::Matrix& matrix : spec.matrices) outputs += matrix.n;
  outputs *= std::max<std::int64_t>(1, std::min(spec.num_groups, spec.num_rows));
  for (int count : {4, 2})
    if (outputs >= count * kWarps * kFullBlocks) return count;
  return 1;
}

// Rows of x in a tile, as the kernel rounds them up.
std::int64_t rows_of_tile(std::int64_t num_rows) {
  std::int64_t rows = 1;
  while (rows < std::min<std::int64_t>(num_rows, kFewRows)) rows *= 2;
  return rows;
}

// Returns the name of a kernel, without the type of x.
std::string full_name(const FewRowsSpec& spec, const std::string& weights) {
  return (spec.num_groups == 0 && spec.num_rows == 1 ? "one_row_" : "few_rows_") + weights;
}
std::string vectors_name(const FewRowsSpec& spec) {
  return full_name(
      spec, spec.stored ? kernel_name(*spec.stored) : fmt::format("{}", outputs_of_warp(spec)));
}

}  // namespace

NumberType number_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return NumberType::f32;
    case DType::bf16:
      return NumberType::bf16;
    case DType::f16:
      return NumberType::f16;
    default:
      LAMINA_ASSERT(dtype == DType::f64);
      return NumberType::f64;
  }
}

std::int64_t max_row_tiles(std::int64_t num_rows, std::int64_t num_groups, int tile_rows) {
  if (num_groups == 0) return divide_up(num_rows, std::int64_t{tile_rows});
  // Each group, and the rows before and after the groups, may have a tile that is not full.
  return num_rows / tile_rows + std::min(num_groups + 2, num_rows);
}

FewRows::FewRows(Context& context, const FewRowsSpec& spec)
    : spec_(spec),
      vectors_{cuda::function(context, vectors_name(spec), spec.in), outputs_of_warp(spec)},
      numbers_{spec.stored ? vectors_.function
                           : cuda::function(context, full_name(spec, "numbers"), spec.in),
               1} {
  const std::int64_t row_bytes = rows_of_tile(spec.num_rows) * size_bytes(spec.in);
  const std::int64_t most = kSharedBytes / row_bytes / kFewRowsStep * kFewRowsStep;
  params_.chunk = static_cast<std::int32_t>(
      std::min(most, round_up(std::max<std::int64_t>(spec.k, 1), std::int64_t{kFewRowsStep})));
  params_.k = spec.k;
  params_.rows = {.offsets = {},
                  .num_groups = static_cast<std::int32_t>(spec.num_groups),
                  .num_rows = spec.num_rows};
  params_.y_type = number_type(spec.out);
}

void FewRows::run(const KernelArgs& args, const void* x, const void* offsets,
                  std::span<const Operands> operands) const {
  LAMINA_ASSERT(operands.size() == spec_.matrices.size());
  for (std::size_t first = 0; first < operands.size(); first += kMaxMatrices)
    launch_some(
        args, x, offsets, first,
        operands.subspan(first, std::min<std::size_t>(kMaxMatrices, operands.size() - first)));
}

void FewRows::launch_some(const KernelArgs& args, const void* x, const void* offsets,
                          std::size_t first, std::span<const Operands> operands) const {
  FewRowsParams p = params_;
  p.x = address(x);
  p.rows.offsets = address(offsets);
  constexpr std::int64_t kUnit = 8;
  const bool whole_units = spec_.k % kUnit == 0;
  p.x_vectors = whole_units && are_vectors(x);
  const bool vectors =
      spec_.stored || (whole_units && std::ranges::all_of(operands, [](const Operands& o) {
                         return are_vectors(o.w);
                       }));
  const Kernel& kernel = vectors ? vectors_ : numbers_;
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const FewRowsSpec::Matrix& matrix = spec_.matrices[first + i];
    p.matrices[i] = {.w = address(operands[i].w),
                     .bias = address(matrix.bias ? operands[i].bias : nullptr),
                     .y = address(operands[i].y),
                     .n = matrix.n,
                     .first_block = static_cast<std::int32_t>(blocks),
                     .bias_type = number_type(matrix.bias.value_or(DType::f32))};
    blocks += divide_up(matrix.n, kWarps * kernel.outputs);
  }
  p.num_matrices = static_cast<std::int32_t>(operands.size());
  launch_tiles(args, kernel.function,
               {.blocks = blocks,
                .threads = kFewRowsThreads,
                .shared_bytes = static_cast<std::size_t>(rows_of_tile(spec_.num_rows) * p.chunk *
                                                         size_bytes(spec_.in)),
                .blocks_y = max_row_tiles(spec_.num_rows, spec_.num_groups, kFewRows)},
               p);
}

}  // namespace lamina::cuda
