// Shares the rows of norms out to threads, and adds up the gradients of their weights.
#include "backends/cpu/norm/norm.h"

#include <algorithm>

#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/norm/norm_simd.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 8192;

const NormFunctions& functions() { return isa_table<NormFunctions>(); }

std::int64_t num_rows(const NormSize& size) { return size.outer * size.inner; }
std::int64_t min_rows(const NormSize& size) {
  return std::max<std::int64_t>(1, kMinElementsPerThread / std::max<std::int64_t>(1, size.width));
}

void check(DType dtype, DType weight_dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  LAMINA_ASSERT(weight_dtype == DType::f32 || weight_dtype == DType::bf16);
}

// Weight gradients are summed within blocks of rows, then over blocks in order. The blocks follow
// from the shape alone: at most 64 of them, of at least 32 rows.
std::int64_t rows_per_block(std::int64_t rows) {
  return std::max<std::int64_t>(32, (rows + 63) / 64);
}
std::int64_t num_blocks(std::int64_t rows) {
  const std::int64_t per_block = rows_per_block(rows);
  return (rows + per_block - 1) / per_block;
}

// Runs run_rows(begin, end, partial sums of this block) over all rows, then adds the partial sums
// into the gradients that are wanted. workspace: [blocks, wanted, width].
template <typename RunRows>
void run_with_gradients(const NormSize& size, std::initializer_list<float*> gradients,
                        float* workspace, const RunRows& run_rows) {
  const std::int64_t rows = num_rows(size);
  const std::int64_t per_block = rows_per_block(rows);
  const std::int64_t blocks = num_blocks(rows);
  std::int64_t wanted = 0;
  for (float* gradient : gradients) wanted += gradient != nullptr;
  LAMINA_ASSERT(wanted == 0 || rows == 0 || workspace != nullptr);
  parallel_tasks(blocks, [&](std::int64_t block) {
    float* partial = workspace + block * wanted * size.width;
    if (wanted > 0) std::fill_n(partial, wanted * size.width, 0.0f);
    run_rows(block * per_block, std::min(rows, (block + 1) * per_block), partial);
  });
  std::int64_t index = 0;
  for (float* gradient : gradients) {
    if (gradient == nullptr) continue;
    const float* partial = workspace + index++ * size.width;
    if (blocks == 0) {
      std::fill_n(gradient, size.width, 0.0f);
      continue;
    }
    parallel_ranges(size.width, kMinElementsPerThread / blocks,
                    [&](std::int64_t begin, std::int64_t end) {
                      functions().add_up(gradient + begin, partial + begin, wanted * size.width,
                                         blocks, end - begin);
                    });
  }
}

}  // namespace

std::size_t norm_workspace_bytes(const NormSize& size, int num_gradients) {
  return static_cast<std::size_t>(num_blocks(num_rows(size)) * num_gradients * size.width) *
         sizeof(float);
}

void rms_norm_forward(const RmsNormForward& p) {
  check(p.dtype, p.weight_dtype);
  LAMINA_ASSERT((p.residual.data == nullptr) == (p.sum.data == nullptr));
  parallel_ranges(num_rows(p.size), min_rows(p.size), [&](std::int64_t begin, std::int64_t end) {
    functions().rms_forward(p, begin, end);
  });
}

void rms_norm_backward(const RmsNormBackward& p) {
  check(p.dtype, p.weight_dtype);
  run_with_gradients(p.size, {p.dweight}, p.workspace,
                     [&](std::int64_t begin, std::int64_t end, float* partial) {
                       functions().rms_backward(p, begin, end, p.dweight ? partial : nullptr);
                     });
}

void layer_norm_forward(const LayerNormForward& p) {
  check(p.dtype, p.weight_dtype);
  parallel_ranges(num_rows(p.size), min_rows(p.size), [&](std::int64_t begin, std::int64_t end) {
    functions().layer_forward(p, begin, end);
  });
}

void layer_norm_backward(const LayerNormBackward& p) {
  check(p.dtype, p.weight_dtype);
  run_with_gradients(p.size, {p.dweight, p.dbias}, p.workspace,
                     [&](std::int64_t begin, std::int64_t end, float* partial) {
                       float* dweight = p.dweight ? partial : nullptr;
                       float* dbias = p.dbias ? partial + (p.dweight ? p.size.width : 0) : nullptr;
                       functions().layer_backward(p, begin, end, dweight, dbias);
                     });
}

}  // namespace lamina::cpu
