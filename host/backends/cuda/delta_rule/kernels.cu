// The gated delta rule (host/ops/gated_delta_rule.cc): the recurrence of matrix_scan with a = -k,
// and a gradient in chunks of 32 tokens. matrix_scan/kernels.cu says what bounds the parts; a chunk
// has a decay per head, so that all of its work is products of small matrices.
#include "backends/cuda/delta_rule/gradient.h"
#include "backends/cuda/delta_rule/reference.h"

namespace lamina::cuda {

LAMINA_GPU_KERNEL_BOUNDS(delta_rule_tokens, DeltaRuleParams, 128, 3) {
  run_forwards(p.tokens, DeltaKeys(p));
}

// Blocks with a second index of 1 compute the gradients of states.
LAMINA_GPU_KERNEL_BOUNDS(delta_rule_edges, DeltaRuleParams, 128, 3) {
  if (gpu::block_index_y() == 0)
    run_forwards(p.tokens, DeltaKeys(p));
  else
    run_backwards(p.tokens, DeltaKeys(p));
}

LAMINA_GPU_KERNEL_BOUNDS(delta_rule_gradient, DeltaRuleGradParams, 256, 1) {
  LAMINA_GPU_SHARED(std::int32_t, documents, kDeltaChunk);
  LAMINA_GPU_SHARED(double, sums, kDeltaChunk);
  const std::int64_t chunks = p.rule.tokens.num_chunks;
  DeltaGradient(p, documents, sums).run(gpu::block_index() / chunks, gpu::block_index() % chunks);
}

LAMINA_GPU_KERNEL_BOUNDS(delta_rule_reference, DeltaReferenceParams, 128, 1) {
  DeltaReference reference(p);
  for (std::int64_t i = gpu::block_index(); i < p.batch * p.key_heads; i += gpu::num_blocks())
    reference.run(i / p.key_heads, i % p.key_heads);
}

}  // namespace lamina::cuda
