// Chooses the attention kernels of this machine and checks what they rely on.
#include "backends/cpu/attention/attention.h"

#include "backends/cpu/attention/attention_simd.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

void check(const AttentionSpec& s) {
  LAMINA_ASSERT(s.dtype == DType::f32 || s.dtype == DType::bf16 || s.dtype == DType::f64);
  LAMINA_ASSERT(s.batch >= 0 && s.q_tokens >= 0 && s.kv_tokens >= 0);
  LAMINA_ASSERT(s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0);
  LAMINA_ASSERT(s.qk_dim > 0 && s.v_dim > 0);
  LAMINA_ASSERT(s.window >= 0 && s.chunk >= 0 && s.soft_cap >= 0);
}

void check(const AttentionMasks& m) {
  LAMINA_ASSERT((m.q_segments == nullptr) == (m.k_segments == nullptr));
  LAMINA_ASSERT((m.q_blocks == nullptr) == (m.k_blocks == nullptr));
}

const AttentionKernels& kernels(DType dtype) {
  switch (best_isa()) {
    case Isa::avx512_bf16:
      return attention_kernels_avx512(dtype, true);
    case Isa::avx512:
      return attention_kernels_avx512(dtype, false);
    case Isa::avx2:
      return attention_kernels_avx2(dtype);
    case Isa::portable:
      break;
  }
  return attention_kernels_portable(dtype);
}

}  // namespace

std::size_t attention_forward_workspace_bytes(const AttentionSpec& spec) {
  check(spec);
  if (spec.dtype == DType::f64) return reference::attention_forward_workspace_bytes(spec);
  return static_cast<std::size_t>(kernels(spec.dtype).forward_workspace_bytes(spec, false));
}

void attention_forward(const AttentionSpec& spec, const AttentionForwardArgs& args,
                       std::byte* workspace) {
  check(spec);
  check(args.masks);
  if (spec.dtype == DType::f64) return reference::attention_forward(spec, args, nullptr, workspace);
  kernels(spec.dtype).forward(spec, args, nullptr, workspace);
}

std::size_t attention_backward_workspace_bytes(const AttentionSpec& spec) {
  check(spec);
  if (spec.dtype == DType::f64) return reference::attention_backward_workspace_bytes(spec);
  return static_cast<std::size_t>(kernels(spec.dtype).backward_workspace_bytes(spec));
}

void attention_backward(const AttentionSpec& spec, const AttentionBackwardArgs& args,
                        std::byte* workspace) {
  check(spec);
  check(args.masks);
  LAMINA_ASSERT((args.sinks == nullptr) == (args.dsinks == nullptr));
  if (spec.dtype == DType::f64) return reference::attention_backward(spec, args, workspace);
  kernels(spec.dtype).backward(spec, args, workspace);
}

std::size_t attention_cached_workspace_bytes(const AttentionSpec& spec) {
  check(spec);
  if (spec.dtype == DType::f64) return reference::attention_forward_workspace_bytes(spec);
  const AttentionKernels& k = kernels(spec.dtype);
  return static_cast<std::size_t>(k.decodes(spec) ? k.decode_workspace_bytes(spec)
                                                  : k.forward_workspace_bytes(spec, true));
}

void attention_cached(const AttentionSpec& spec, const AttentionForwardArgs& args,
                      const AttentionCache& cache, std::byte* workspace) {
  check(spec);
  const AttentionMasks& m = args.masks;
  LAMINA_ASSERT(!m.q_positions && !m.k_positions && !m.q_segments && !m.k_segments && !m.q_blocks &&
                !m.k_blocks && !(m.keep && cache.ring));
  if (spec.dtype == DType::f64) return reference::attention_forward(spec, args, &cache, workspace);
  const AttentionKernels& k = kernels(spec.dtype);
  if (k.decodes(spec)) return k.decode(spec, args, cache, workspace);
  k.forward(spec, args, &cache, workspace);
}

std::size_t latent_attention_workspace_bytes(const LatentSpec& spec) {
  return static_cast<std::size_t>(kernels(spec.dtype).latent_workspace_bytes(spec));
}

void latent_attention(const LatentSpec& spec, const LatentArgs& args, std::byte* workspace) {
  kernels(spec.dtype).latent(spec, args, workspace);
}

std::size_t index_scores_workspace_bytes(const IndexSpec& spec) {
  return static_cast<std::size_t>(kernels(spec.dtype).index_workspace_bytes(spec));
}

void index_scores(const IndexSpec& spec, const IndexArgs& args, std::byte* workspace) {
  kernels(spec.dtype).index(spec, args, workspace);
}

std::size_t index_scores_grad_workspace_bytes(const IndexSpec& spec) {
  return static_cast<std::size_t>(kernels(spec.dtype).index_grad_workspace_bytes(spec));
}

void index_scores_grad(const IndexSpec& spec, const IndexGradArgs& args, std::byte* workspace) {
  kernels(spec.dtype).index_grad(spec, args, workspace);
}

std::size_t attention_mass_workspace_bytes(const MassSpec& spec) {
  return static_cast<std::size_t>(kernels(spec.dtype).mass_workspace_bytes(spec));
}

void attention_mass(const MassSpec& spec, const MassArgs& args, std::byte* workspace) {
  kernels(spec.dtype).mass(spec, args, workspace);
}

}  // namespace lamina::cpu
