// Shares the rows of softmax out to threads.
#include "backends/cpu/softmax/softmax.h"

#include <algorithm>

#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/softmax/softmax_simd.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const SoftmaxKernels& kernels() {
  switch (best_isa()) {
    case Isa::avx512_bf16:
    case Isa::avx512:
      return kSoftmaxAvx512;
    case Isa::avx2:
      return kSoftmaxAvx2;
    case Isa::portable:
      break;
  }
  return kSoftmaxPortable;
}

std::int64_t min_rows(std::int64_t width) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, width));
}

}  // namespace

void softmax_forward(const SoftmaxForward& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_rows, min_rows(p.width),
                  [&](std::int64_t begin, std::int64_t end) { kernels().forward(p, begin, end); });
}

void softmax_backward(const SoftmaxBackward& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  parallel_ranges(p.num_rows, min_rows(p.width),
                  [&](std::int64_t begin, std::int64_t end) { kernels().backward(p, begin, end); });
}

}  // namespace lamina::cpu
