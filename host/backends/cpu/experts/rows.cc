// Distributes tokens and rows over threads.
#include "backends/cpu/experts/rows.h"

#include <algorithm>

#include "backends/cpu/experts/rows_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMinElementsPerThread = 16384;

const RowsFunctions& functions() { return isa_table<RowsFunctions>(); }

std::int64_t min_rows(std::int64_t elements_per_row) {
  return 1 + kMinElementsPerThread / std::max<std::int64_t>(1, elements_per_row);
}

}  // namespace

void combine_rows(const CombineRows& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_tokens, min_rows(p.width * p.k), [&](std::int64_t begin, std::int64_t end) {
    functions().combine(p, begin, end);
  });
}

void combine_rows_grad(const CombineRowsGrad& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_rows, min_rows(p.width), [&](std::int64_t begin, std::int64_t end) {
    functions().combine_grad(p, begin, end);
  });
}

}  // namespace lamina::cpu
