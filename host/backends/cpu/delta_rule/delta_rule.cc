// Distributes the heads of the gated delta rule over threads.
#include "backends/cpu/delta_rule/delta_rule.h"

#include <algorithm>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const DeltaRuleFunctions& functions() { return isa_table<DeltaRuleFunctions>(); }

// Scratch memory of one thread, in floats: whole cache lines.
std::int64_t lines(std::int64_t floats) { return (floats + 15) / 16 * 16; }
std::size_t for_all_threads(std::int64_t floats) {
  return static_cast<std::size_t>(lines(floats) * num_threads()) * sizeof(float);
}

bool is_recurrent(const DeltaRuleForward& p) {
  return p.state != nullptr && delta_rule_is_recurrent(p.tokens);
}

void check(const DeltaRule& p) {
  LAMINA_ASSERT(p.key_heads > 0 && p.heads % p.key_heads == 0);
  for (const ConstNumbers& x : {p.q, p.k, p.v, p.g, p.beta})
    LAMINA_ASSERT(x.dtype == DType::f32 || x.dtype == DType::bf16);
}

}  // namespace

// A chunk of at most 4 tokens would spend most of its time on setting up products.
bool delta_rule_is_recurrent(std::int64_t tokens) { return tokens <= 4; }

std::size_t delta_rule_forward_workspace_bytes(const DeltaRuleForward& p) {
  const DeltaSizes sizes(p);
  return for_all_threads(is_recurrent(p) ? sizes.recurrent() : sizes.forward());
}
std::size_t delta_rule_backward_workspace_bytes(const DeltaRule& p) {
  return for_all_threads(DeltaSizes(p).backward());
}

void delta_rule_forward(const DeltaRuleForward& p) {
  check(p);
  LAMINA_ASSERT((p.state == nullptr) == (p.start == nullptr || p.count == nullptr));
  const DeltaSizes sizes(p);
  if (is_recurrent(p)) {
    const std::int64_t scratch = lines(sizes.recurrent());
    parallel_tasks(p.batch * p.heads, [&](std::int64_t task, int thread) {
      functions().recurrent(p, task / p.heads, task % p.heads, p.workspace + thread * scratch);
    });
    return;
  }
  const std::int64_t scratch = lines(sizes.forward());
  parallel_tasks(p.batch * p.key_heads, [&](std::int64_t task, int thread) {
    functions().forward(p, task / p.key_heads, task % p.key_heads, p.workspace + thread * scratch);
  });
}

void delta_rule_backward(const DeltaRuleBackward& p) {
  check(p);
  const std::int64_t scratch = lines(DeltaSizes(p).backward());
  parallel_tasks(p.batch * p.key_heads, [&](std::int64_t task, int thread) {
    functions().backward(p, task / p.key_heads, task % p.key_heads, p.workspace + thread * scratch);
  });
}

}  // namespace lamina::cpu
