// The attention kernels for AVX-512, and for bf16 its dot products where the CPU has them.
#include "backends/cpu/attention_backward_kernel.h"
#include "backends/cpu/attention_forward_kernel.h"
#include "backends/cpu/attention_kernels.h"

namespace lamina::cpu {
namespace {

template <class T, bool kPairs>
constexpr AttentionKernels kKernels = {
    Forward<Vectors<16>, T, kPairs>::workspace_bytes, Forward<Vectors<16>, T, kPairs>::run,
    Backward<Vectors<16>, T, kPairs>::workspace_bytes, Backward<Vectors<16>, T, kPairs>::run};

}  // namespace

const AttentionKernels& attention_kernels_avx512(DType dtype, bool pairs) {
  if (dtype == DType::f32) return kKernels<float, false>;
  return pairs ? kKernels<std::uint16_t, true> : kKernels<std::uint16_t, false>;
}

}  // namespace lamina::cpu
