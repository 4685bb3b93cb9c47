// The attention kernels for AVX2 with FMA.
#include "backends/cpu/attention_backward_kernel.h"
#include "backends/cpu/attention_forward_kernel.h"
#include "backends/cpu/attention_kernels.h"

namespace lamina::cpu {
namespace {

template <class T, bool kPairs>
constexpr AttentionKernels kKernels = {
    Forward<Vectors<8>, T, kPairs>::workspace_bytes, Forward<Vectors<8>, T, kPairs>::run,
    Backward<Vectors<8>, T, kPairs>::workspace_bytes, Backward<Vectors<8>, T, kPairs>::run};

}  // namespace

const AttentionKernels& attention_kernels_avx2(DType dtype) {
  return dtype == DType::f32 ? kKernels<float, false> : kKernels<std::uint16_t, false>;
}

}  // namespace lamina::cpu
