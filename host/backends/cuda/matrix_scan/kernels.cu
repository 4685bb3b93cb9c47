// Linear attention with a decaying matrix as state (host/ops/matrix_scan.cc).
//
// Forwards, for decode state and for the states that the gradient needs, token by token with the
// state in registers: in f32 without tensor cores a chunked form would need as many multiplications
// (8 per element of the state and token), and this one gives the same bits for a row in one call
// and in many. Bound by f32 multiplications if there are many heads, else by the steps of a token
// that wait for each other; a decode step by reading and writing the state once.
//
// The gradient has three steps. States before chunks of 16 tokens and gradients of the states after
// them are recurrences that do not need each other, so one launch computes both. Then a block per
// chunk computes its gradients (gradient.h), bound by multiplications of operands in shared memory.
#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/matrix_scan/gradient.h"

namespace lamina::cuda {

LAMINA_GPU_KERNEL_BOUNDS(matrix_scan_tokens, MatrixScanParams, 128, 3) {
  run_forwards(p.tokens, MatrixKeys(p));
}

// Blocks with a second index of 1 compute the gradients of states.
LAMINA_GPU_KERNEL_BOUNDS(matrix_scan_edges, MatrixScanParams, 128, 3) {
  if (gpu::block_index_y() == 0)
    run_forwards(p.tokens, MatrixKeys(p));
  else
    run_backwards(p.tokens, MatrixKeys(p));
}

LAMINA_GPU_KERNEL_BOUNDS(matrix_scan_gradient, MatrixScanGradParams, 256, 1) {
  LAMINA_GPU_SHARED(std::int32_t, documents, kMatrixChunk);
  const std::int64_t chunks = p.scan.tokens.num_chunks;
  MatrixGradient(p, documents).run(gpu::block_index() / chunks, gpu::block_index() % chunks);
}

}  // namespace lamina::cuda
