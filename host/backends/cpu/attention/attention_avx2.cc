// The attention kernels for AVX2 with FMA.
#include "backends/cpu/attention/attention_simd.h"
#include "backends/cpu/attention/backward_simd.h"
#include "backends/cpu/attention/decode_simd.h"
#include "backends/cpu/attention/forward_simd.h"
#include "backends/cpu/attention/index_scores_grad_simd.h"
#include "backends/cpu/attention/latent_simd.h"
#include "backends/cpu/attention/mass_simd.h"

namespace lamina::cpu {
namespace {

using V = Vectors<8>;

template <class T, bool kPairs>
constexpr AttentionKernels kKernels = {Forward<V, T, kPairs>::workspace_bytes,
                                       Forward<V, T, kPairs>::run,
                                       Decode<V, T, kPairs>::takes,
                                       Decode<V, T, kPairs>::workspace_bytes,
                                       Decode<V, T, kPairs>::run,
                                       Backward<V, T, kPairs>::workspace_bytes,
                                       Backward<V, T, kPairs>::run,
                                       Latent<V, T, kPairs>::workspace_bytes,
                                       Latent<V, T, kPairs>::run,
                                       IndexScores<V, T, kPairs>::workspace_bytes,
                                       IndexScores<V, T, kPairs>::run,
                                       IndexScoresGrad<V, T>::workspace_bytes,
                                       IndexScoresGrad<V, T>::run,
                                       AttentionMass<V, T, kPairs>::workspace_bytes,
                                       AttentionMass<V, T, kPairs>::run};

}  // namespace

const AttentionKernels& attention_kernels_avx2(DType dtype) {
  return dtype == DType::f32 ? kKernels<float, false> : kKernels<std::uint16_t, false>;
}

}  // namespace lamina::cpu
