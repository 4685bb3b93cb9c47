// Distributes the rows of norms over threads, and adds up the gradients of their weights.
#include "backends/cpu/norm/norm.h"

#include <algorithm>

#include "backends/cpu/norm/norm_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 8192;

const NormFunctions& functions() { return isa_table<NormFunctions>(); }

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, kMinElementsPerThread / std::max<std::int64_t>(1, width));
}

void check(DType dtype, DType weight_dtype) {
  LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  LAMINA_ASSERT(weight_dtype == DType::f32 || weight_dtype == DType::bf16);
}

// Weight gradients are summed within blocks of rows, then over blocks in order. The blocks depend
// on the shape alone: at most 64 of them, of at least 32 rows.
std::int64_t rows_per_block(std::int64_t rows) {
  return std::max<std::int64_t>(32, divide_up(rows, 64));
}
std::int64_t num_blocks(std::int64_t rows) {
  const std::int64_t per_block = rows_per_block(rows);
  return divide_up(rows, per_block);
}

// Runs run_rows(begin, end, partial sums of this block) over all rows, then adds the partial sums
// to the requested gradients. workspace: [blocks, requested, width].
template <typename RunRows>
void run_with_gradients(std::int64_t rows, std::int64_t width,
                        std::initializer_list<float*> gradients, float* workspace,
                        const RunRows& run_rows) {
  const std::int64_t per_block = rows_per_block(rows);
  const std::int64_t blocks = num_blocks(rows);
  std::int64_t wanted = 0;
  for (float* gradient : gradients) wanted += gradient != nullptr;
  LAMINA_ASSERT(wanted == 0 || rows == 0 || workspace != nullptr);
  parallel_tasks(blocks, [&](std::int64_t block) {
    float* partial = workspace + block * wanted * width;
    if (wanted > 0) std::fill_n(partial, wanted * width, 0.0f);
    run_rows(block * per_block, std::min(rows, (block + 1) * per_block), partial);
  });
  std::int64_t index = 0;
  for (float* gradient : gradients) {
    if (gradient == nullptr) continue;
    const float* partial = workspace + index++ * width;
    if (blocks == 0) {
      std::fill_n(gradient, width, 0.0f);
      continue;
    }
    parallel_ranges(width, kMinElementsPerThread / blocks,
                    [&](std::int64_t begin, std::int64_t end) {
                      functions().add_up(gradient + begin, partial + begin, wanted * width, blocks,
                                         end - begin);
                    });
  }
}

}  // namespace

std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t width, int num_gradients) {
  return static_cast<std::size_t>(num_blocks(rows) * num_gradients * width) * sizeof(float);
}

void rms_norm_forward(const RmsNormForward& p) {
  check(p.dtype, p.weight_dtype);
  LAMINA_ASSERT((p.residual == nullptr) == (p.sum == nullptr));
  parallel_ranges(p.rows, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    functions().rms_forward(p, begin, end);
  });
}

void rms_norm_backward(const RmsNormBackward& p) {
  check(p.dtype, p.weight_dtype);
  run_with_gradients(p.rows, p.width, {p.dweight}, p.workspace,
                     [&](std::int64_t begin, std::int64_t end, float* partial) {
                       functions().rms_backward(p, begin, end, p.dweight ? partial : nullptr);
                     });
}

void layer_norm_forward(const LayerNormForward& p) {
  check(p.dtype, p.weight_dtype);
  parallel_ranges(p.rows, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    functions().layer_forward(p, begin, end);
  });
}

void layer_norm_backward(const LayerNormBackward& p) {
  check(p.dtype, p.weight_dtype);
  run_with_gradients(p.rows, p.width, {p.dweight, p.dbias}, p.workspace,
                     [&](std::int64_t begin, std::int64_t end, float* partial) {
                       float* dweight = p.dweight ? partial : nullptr;
                       float* dbias = p.dbias ? partial + (p.dweight ? p.width : 0) : nullptr;
                       functions().layer_backward(p, begin, end, dweight, dbias);
                     });
}

}  // namespace lamina::cpu
