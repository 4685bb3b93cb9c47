// Attention by cuDNN, and its gradients: described and planned once, run many times.
//
//   const Planned planned = library.plan({.batch = 2, .q_tokens = 512, ...});
//   planned.plan->run(library, stream, {.q = q, .k = k, .v = v, .y = y, .lse = lse, ...});
//
// The graphs are the compositions of products, pointwise operations and reductions that NVIDIA
// documents for its engines of attention (cuDNN, "Graph Patterns"). Logits and sums are in f32.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "backends/cuda/dnn/graph.h"
#include "core/dtype.h"
#include "runtime/memory.h"

namespace lamina::cuda::dnn {

// Sizes of q[B, T, N, H], k[B, S, K, H] and v[B, S, K, V], and the mask.
struct DnnAttentionSpec {
  bool backward = false;
  DType dtype = DType::bf16;  // or f16
  std::int64_t batch = 0, q_tokens = 0, kv_tokens = 0, heads = 0, kv_heads = 0;
  std::int64_t width = 0, value_width = 0;
  double scale = 1;
  // Token t sees the tokens up to its place, or only the last `window` ones.
  bool causal = false;
  std::int64_t window = 0;
  // Tokens see only tokens of their segment. REQUIRES: as many keys as queries.
  bool segments = false;
  // The first lengths[b] of S tokens are keys, and the last ones among them are the queries. Not
  // for gradients.
  bool over_state = false;
  // Each head has one more logit, without a value. Not for gradients.
  bool sinks = false;

  friend auto operator<=>(const DnnAttentionSpec&, const DnnAttentionSpec&) = default;
};

// Bytes that the gradients need at least for dS, which is kept whole so that dq is one product with
// a fixed order of sums.
std::int64_t logit_gradient_bytes(const DnnAttentionSpec& spec);

// Device addresses; 0 for operands that the spec does not have.
struct AttentionOperands {
  Address q = 0, k = 0, v = 0, y = 0;
  Address lse = 0;                         // f32[B, N, T]
  Address q_segments = 0, k_segments = 0;  // i32[B, T]
  Address q_lengths = 0, kv_lengths = 0;   // i32[B]
  Address sinks = 0;                       // f32[N]
  Address dy = 0, dq = 0, dk = 0, dv = 0;
  Address workspace = 0;  // aligned to 16 bytes
};

class AttentionPlan {
 public:
  // The ids of the tensors in memory; 0 for those that the spec does not have.
  struct Ids {
    std::int64_t q = 0, k = 0, v = 0, y = 0, lse = 0, q_segments = 0, k_segments = 0;
    std::int64_t q_lengths = 0, kv_lengths = 0, sinks = 0, dy = 0, dq = 0, dk = 0, dv = 0, dots = 0;
  };
  // `dots_bytes`: of f32[B, N, T] before the plan's workspace; 0 without gradients.
  AttentionPlan(const Ids& ids, std::unique_ptr<Plan> plan, std::size_t dots_bytes)
      : ids_(ids), plan_(std::move(plan)), dots_bytes_(dots_bytes) {}

  std::size_t workspace_bytes() const { return dots_bytes_ + plan_->workspace_bytes(); }
  // Enqueues the work on the stream. [any thread]
  void run(DnnLibrary& library, DnnStream stream, const AttentionOperands& operands) const;

 private:
  Ids ids_;
  std::unique_ptr<Plan> plan_;
  std::size_t dots_bytes_;
};

// Called by DnnLibrary::plan().
Planned make_attention_plan(DnnLibrary& library, const DnnAttentionSpec& spec);

}  // namespace lamina::cuda::dnn
