// Chooses the attention functions for this machine and checks their requirements.
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
  LAMINA_ASSERT(s.cached == CachedRows::plain || (s.dtype != DType::f64 && s.k_tail_dim == 0));
  LAMINA_ASSERT(s.window >= 0 && s.chunk >= 0 && s.soft_cap >= 0 && s.bias_distances >= 0);
}

void check(const AttentionSpec& s, const AttentionBias& bias) {
  LAMINA_ASSERT(s.slopes == (bias.slopes != nullptr));
  LAMINA_ASSERT((s.bias_distances > 0) == (bias.table != nullptr));
}

void check(const AttentionMasks& m) {
  LAMINA_ASSERT((m.q_segments == nullptr) == (m.k_segments == nullptr));
  LAMINA_ASSERT((m.q_blocks == nullptr) == (m.k_blocks == nullptr));
}

const AttentionFunctions& functions(DType dtype) {
  const AttentionTable& table = isa_table<AttentionTable>();
  if (dtype == DType::f32) return table.f32;
  return best_isa() == Isa::avx512_bf16 ? table.bf16_pairs : table.bf16;
}

}  // namespace

std::size_t attention_forward_workspace_bytes(const AttentionSpec& spec) {
  check(spec);
  if (spec.dtype == DType::f64) return reference::attention_forward_workspace_bytes(spec);
  return static_cast<std::size_t>(functions(spec.dtype).forward_workspace_bytes(spec, false));
}

void attention_forward(const AttentionSpec& spec, const AttentionForwardArgs& args,
                       std::byte* workspace) {
  check(spec);
  check(spec, args.bias);
  check(args.masks);
  if (spec.dtype == DType::f64) return reference::attention_forward(spec, args, nullptr, workspace);
  functions(spec.dtype).forward(spec, args, nullptr, workspace);
}

std::size_t attention_backward_workspace_bytes(const AttentionSpec& spec) {
  check(spec);
  if (spec.dtype == DType::f64) return reference::attention_backward_workspace_bytes(spec);
  return static_cast<std::size_t>(functions(spec.dtype).backward_workspace_bytes(spec));
}

void attention_backward(const AttentionSpec& spec, const AttentionBackwardArgs& args,
                        std::byte* workspace) {
  check(spec);
  check(spec, args.bias);
  check(args.masks);
  LAMINA_ASSERT((args.sinks == nullptr) == (args.dsinks == nullptr));
  LAMINA_ASSERT((args.bias.slopes == nullptr) == (args.dslopes == nullptr));
  LAMINA_ASSERT((args.bias.table == nullptr) == (args.dtable == nullptr));
  if (spec.dtype == DType::f64) return reference::attention_backward(spec, args, workspace);
  functions(spec.dtype).backward(spec, args, workspace);
}

std::size_t attention_cached_workspace_bytes(const AttentionSpec& spec) {
  check(spec);
  if (spec.dtype == DType::f64) return reference::attention_forward_workspace_bytes(spec);
  const AttentionFunctions& f = functions(spec.dtype);
  return static_cast<std::size_t>(f.decodes(spec) ? f.decode_workspace_bytes(spec)
                                                  : f.forward_workspace_bytes(spec, true));
}

void attention_cached(const AttentionSpec& spec, const AttentionForwardArgs& args,
                      const AttentionCache& cache, std::byte* workspace) {
  check(spec);
  check(spec, args.bias);
  const AttentionMasks& m = args.masks;
  LAMINA_ASSERT(!m.q_positions && !m.k_positions && !m.q_segments && !m.k_segments && !m.q_blocks &&
                !m.k_blocks && !(m.keep && cache.ring));
  if (spec.dtype == DType::f64) return reference::attention_forward(spec, args, &cache, workspace);
  const AttentionFunctions& f = functions(spec.dtype);
  if (f.decodes(spec)) return f.decode(spec, args, cache, workspace);
  f.forward(spec, args, &cache, workspace);
}

std::size_t latent_attention_workspace_bytes(const LatentSpec& spec) {
  return static_cast<std::size_t>(functions(spec.dtype).latent_workspace_bytes(spec));
}

void latent_attention(const LatentSpec& spec, const LatentArgs& args, std::byte* workspace) {
  functions(spec.dtype).latent(spec, args, workspace);
}

std::size_t index_scores_workspace_bytes(const IndexSpec& spec) {
  return static_cast<std::size_t>(functions(spec.dtype).index_workspace_bytes(spec));
}

void index_scores(const IndexSpec& spec, const IndexArgs& args, std::byte* workspace) {
  functions(spec.dtype).index(spec, args, workspace);
}

std::size_t index_scores_grad_workspace_bytes(const IndexSpec& spec) {
  return static_cast<std::size_t>(functions(spec.dtype).index_grad_workspace_bytes(spec));
}

void index_scores_grad(const IndexSpec& spec, const IndexGradArgs& args, std::byte* workspace) {
  functions(spec.dtype).index_grad(spec, args, workspace);
}

std::size_t attention_mass_workspace_bytes(const MassSpec& spec) {
  return static_cast<std::size_t>(functions(spec.dtype).mass_workspace_bytes(spec));
}

void attention_mass(const MassSpec& spec, const MassArgs& args, std::byte* workspace) {
  functions(spec.dtype).mass(spec, args, workspace);
}

}  // namespace lamina::cpu
