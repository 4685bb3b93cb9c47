// What each instruction set offers attention.cc: one table per element type.
#pragma once

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/latent.h"
#include "backends/cpu/attention/mass.h"

namespace lamina::cpu {

// `forward` takes any rows, with a cache or without; `decode` is the faster way for the few rows
// that `decodes` accepts.
struct AttentionKernels {
  std::int64_t (*forward_workspace_bytes)(const AttentionSpec&, bool cached);
  void (*forward)(const AttentionSpec&, const AttentionForwardArgs&, const AttentionCache*,
                  std::byte* workspace);
  bool (*decodes)(const AttentionSpec&);
  std::int64_t (*decode_workspace_bytes)(const AttentionSpec&);
  void (*decode)(const AttentionSpec&, const AttentionForwardArgs&, const AttentionCache&,
                 std::byte* workspace);
  std::int64_t (*backward_workspace_bytes)(const AttentionSpec&);
  void (*backward)(const AttentionSpec&, const AttentionBackwardArgs&, std::byte* workspace);
  std::int64_t (*latent_workspace_bytes)(const LatentSpec&);
  void (*latent)(const LatentSpec&, const LatentArgs&, std::byte* workspace);
  std::int64_t (*index_workspace_bytes)(const IndexSpec&);
  void (*index)(const IndexSpec&, const IndexArgs&, std::byte* workspace);
  std::int64_t (*index_grad_workspace_bytes)(const IndexSpec&);
  void (*index_grad)(const IndexSpec&, const IndexGradArgs&, std::byte* workspace);
  std::int64_t (*mass_workspace_bytes)(const MassSpec&);
  void (*mass)(const MassSpec&, const MassArgs&, std::byte* workspace);
};

// For f32 and bf16. pairs: bf16 products by vdpbf16ps, else widened to f32.
const AttentionKernels& attention_kernels_avx512(DType dtype, bool pairs);
const AttentionKernels& attention_kernels_avx2(DType dtype);
const AttentionKernels& attention_kernels_portable(DType dtype);

}  // namespace lamina::cpu
