// Distributes the heads of a matrix scan over threads.
#include "backends/cpu/scan/matrix_scan.h"

#include "backends/cpu/scan/matrix_scan_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

const MatrixScanFunctions& functions() { return isa_table<MatrixScanFunctions>(); }

// Scratch memory of one thread, in floats: whole cache lines.
std::int64_t lines(std::int64_t floats) { return round_up(floats, 16); }
std::size_t for_all_threads(std::int64_t floats) {
  return static_cast<std::size_t>(lines(floats) * num_threads()) * sizeof(float);
}

void check(const MatrixScan& p) {
  for (const KeyNumbers& x : {p.q, p.k, p.a, p.b})
    LAMINA_ASSERT(x.heads > 0 && p.heads % x.heads == 0);
  for (DType dtype : {p.q.dtype, p.k.dtype, p.v.dtype, p.g.dtype})
    LAMINA_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
}

template <typename Params>
void for_heads(const Params& p, std::int64_t floats,
               void (*run)(const Params&, std::int64_t, std::int64_t, float*)) {
  const std::int64_t scratch = lines(floats);
  parallel_tasks(p.batch * p.heads, [&](std::int64_t task, int thread) {
    run(p, task / p.heads, task % p.heads, p.workspace + thread * scratch);
  });
}

}  // namespace

// A chunk of at most 4 tokens would spend most of its time on setting up products.
bool matrix_scan_is_recurrent(std::int64_t tokens) { return tokens <= 4; }

std::size_t matrix_scan_forward_workspace_bytes(const MatrixScan& p, bool with_state) {
  const MatrixScanSizes sizes(p);
  return for_all_threads(with_state && matrix_scan_is_recurrent(p.tokens) ? sizes.recurrent()
                                                                          : sizes.forward());
}
std::size_t matrix_scan_backward_workspace_bytes(const MatrixScan& p) {
  return for_all_threads(MatrixScanSizes(p).backward());
}

void matrix_scan_forward(const MatrixScanForward& p) {
  check(p);
  LAMINA_ASSERT((p.state == nullptr) == (p.start == nullptr || p.count == nullptr));
  const MatrixScanSizes sizes(p);
  if (p.state != nullptr && matrix_scan_is_recurrent(p.tokens))
    for_heads(p, sizes.recurrent(), functions().recurrent);
  else
    for_heads(p, sizes.forward(), functions().forward);
}

void matrix_scan_backward(const MatrixScanBackward& p) {
  check(p);
  for_heads(p, MatrixScanSizes(p).backward(), functions().backward);
}

}  // namespace lamina::cpu
