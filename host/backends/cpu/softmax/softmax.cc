// Distributes the rows of softmax over threads.
#include "backends/cpu/softmax/softmax.h"

#include <algorithm>

#include "backends/cpu/softmax/softmax_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const SoftmaxFunctions& functions() { return isa_table<SoftmaxFunctions>(); }

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, width));
}

}  // namespace

void softmax(const Softmax& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_rows, min_rows(p.width),
                  [&](std::int64_t begin, std::int64_t end) { functions().rows(p, begin, end); });
}

}  // namespace lamina::cpu
