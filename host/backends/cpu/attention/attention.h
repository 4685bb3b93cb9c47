// Softmax attention on the CPU; variants of the mask and of the logits are attributes.
//
//   AttentionSpec spec{.dtype = DType::bf16, .batch = 4, .q_tokens = 256, .kv_tokens = 256,
//                      .heads = 12, .kv_heads = 12, .qk_dim = 64, .v_dim = 64, .scale = 0.125};
//   std::vector<std::byte> workspace(attention_forward_workspace_bytes(spec));
//   attention_forward(spec, {.q = q, .k = k, .v = v, .o = o, .lse = lse}, workspace.data());
//
// Per batch row b, query head n (its key head is n / (heads / kv_heads)) and query token t:
//
//   x_s = scale * dot(q[b,t,n], k[b,s,n']);  if soft_cap: x_s = soft_cap * tanh(x_s / soft_cap)
//   x_s += table[n, min(d, distances - 1)] - slopes[n] * d, with d = |q_position - k_position|
//   p   = softmax over the allowed s, and over the sink's logit, which has no value
//   o[b,t,n] = sum_s p_s * v[b,s,n'];        lse[b,n,t] = log(sum_s exp(x_s) + exp(sink))
//
// Key s is allowed for query t if all of these hold
//   segments: the two ids are equal and not 0, which is padding
//   causal:   k_position <= q_position
//   window:   0 <= q_position - k_position < window
//   chunk:    q_position / chunk == k_position / chunk
// or if the ids of their bidirectional blocks are equal and not 0, and segments allow it; and in
// any case only if the mask, if present, keeps the pair. A query without allowed keys has o = 0,
// lse = -inf (the sink's logit, if any) and gradients of 0.
//
// Sums are f32 (f64 for dtype f64, which only the reference computes). The bits of a result depend
// on the spec, the inputs and the instruction set, but not on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/threads/isa.h"
#include "core/dtype.h"

namespace lamina::cpu {

// The storage of keys and values of a cache: rows as plain elements, or in a format of
// formats/row_formats.h, whose numbers are multiplied without rounding and whose scales are factors
// of logits and of probabilities.
enum class CachedRows : std::uint8_t { plain, int8, e4m3 };

struct AttentionSpec {
  DType dtype = DType::f32;  // of q, k, v, o and their gradients: f32, bf16, f64
  std::int64_t batch = 0;
  std::int64_t q_tokens = 0;
  std::int64_t kv_tokens = 0;  // with a cache: its capacity in slots
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t qk_dim = 0;    // width of a head of q and k
  std::int64_t v_dim = 0;     // width of a head of v and o
  double scale = 1;
  double soft_cap = 0;  // 0: none
  bool causal = true;
  std::int64_t window = 0;  // 0: none; counts the query's own position
  std::int64_t chunk = 0;   // 0: none
  // The last k_tail_dim of qk_dim are in a separate tensor, k_tail. Only with a cache; qk_dim -
  // k_tail_dim must be even.
  std::int64_t k_tail_dim = 0;
  CachedRows cached = CachedRows::plain;  // of k and v; others only with a cache, f32 or bf16
  bool slopes = false;                    // see AttentionBias
  std::int64_t bias_distances = 0;        // 0: no table
};

// A tensor [batch, token, head, dim] with a contiguous last dimension; strides in elements, or in
// bytes if its rows are not plain.
struct AttentionStrides {
  std::int64_t batch = 0, token = 0, head = 0;
};
struct AttentionInput {
  const void* data = nullptr;
  AttentionStrides strides;
};
struct AttentionOutput {
  void* data = nullptr;
  AttentionStrides strides;
};

// Returns the strides of a contiguous [batch, tokens, heads, dim].
constexpr AttentionStrides contiguous_strides(std::int64_t tokens, std::int64_t heads,
                                              std::int64_t dim) {
  return {tokens * heads * dim, heads * dim, dim};
}

// Contiguous [batch, q_tokens] and [batch, kv_tokens]; null for unused features. Positions are in
// [0, 2^30). Without q_positions, token t is at t + kv_tokens - q_tokens (the queries are the last
// tokens); without k_positions, token s is at s. Segments of queries and keys are given together,
// and so are blocks.
struct AttentionMasks {
  const std::int32_t* q_positions = nullptr;
  const std::int32_t* k_positions = nullptr;
  const std::int32_t* q_segments = nullptr;
  const std::int32_t* k_segments = nullptr;
  const std::int32_t* q_blocks = nullptr;
  const std::int32_t* k_blocks = nullptr;
  // [batch, q_tokens, kv_tokens], or with by_head [batch, heads, q_tokens, kv_tokens]: 0 forbids.
  // Not for a ring.
  const std::uint8_t* keep = nullptr;
  bool keep_by_head = false;
  std::int64_t keep_batch = 0;  // elements between its batch rows; 0: they are adjacent
};

// Biases that are added to the logits by distance.
struct AttentionBias {
  const void* slopes = nullptr;  // [heads]
  const void* table = nullptr;   // [heads, bias_distances]; longer distances use the last entry
  DType slopes_dtype = DType::f32, table_dtype = DType::f32;  // f32, bf16 or f64
};

// "real" arrays are f32, or f64 if the dtype is f64.
struct AttentionForwardArgs {
  AttentionInput q, k, v;
  AttentionInput k_tail;           // with k_tail_dim
  const void* sinks = nullptr;     // [heads]; null: none
  DType sinks_dtype = DType::f32;  // f32, bf16 or f64
  AttentionBias bias;
  AttentionMasks masks;
  AttentionOutput o;
  void* lse = nullptr;  // real [batch, heads, q_tokens]; null: not computed
};

// Returns the bytes of workspace for a run, aligned to 64; they depend on the spec and on
// num_threads().
std::size_t attention_forward_workspace_bytes(const AttentionSpec& spec);
// Allocates nothing. Throws InternalError if the spec breaks the ops' shape rules.
void attention_forward(const AttentionSpec& spec, const AttentionForwardArgs& args,
                       std::byte* workspace);

// o and lse are results of attention_forward with the same inputs.
struct AttentionBackwardArgs {
  AttentionInput q, k, v, o, d_o;
  const void* lse = nullptr;
  const void* sinks = nullptr;
  DType sinks_dtype = DType::f32;
  AttentionBias bias;
  AttentionMasks masks;
  AttentionOutput dq, dk, dv;
  // Gradients are real, with the shapes of their inputs. Each is required if its input is present.
  void *dsinks = nullptr, *dslopes = nullptr, *dtable = nullptr;
};

std::size_t attention_backward_workspace_bytes(const AttentionSpec& spec);
void attention_backward(const AttentionSpec& spec, const AttentionBackwardArgs& args,
                        std::byte* workspace);

// k and v are a cache of spec.kv_tokens slots per batch row, which already has the keys and values
// of the q_tokens new tokens. In row b the new tokens have the positions starts[b] + t. A plain
// cache keeps position p in slot p. A ring keeps it in slot p % kv_tokens, so it has the last
// kv_tokens positions, and is exact for a window of at most kv_tokens - q_tokens + 1. Segments,
// blocks and positions are not supported; `keep` is the only mask.
struct AttentionCache {
  const std::int32_t* starts = nullptr;  // [batch]; starts[b] + q_tokens <= kv_tokens if not ring
  bool ring = false;
};

std::size_t attention_cached_workspace_bytes(const AttentionSpec& spec);
void attention_cached(const AttentionSpec& spec, const AttentionForwardArgs& args,
                      const AttentionCache& cache, std::byte* workspace);

// The attention that each key receives from all heads together: the sum of their softmaxes.
// Computes at most a block of queries of one head at a time.
struct MassSpec {
  DType dtype = DType::f32;  // of q and k: f32 or bf16
  std::int64_t batch = 0, q_tokens = 0, k_tokens = 0, heads = 0, dim = 0;
  double scale = 1;
};

// p[b, t, s] = sum over n of softmax over the kept s of scale q[b, t, n] . k[b, s, n]; all
// contiguous. A query that keeps no key has zeros.
struct MassArgs {
  const void *q = nullptr, *k = nullptr;
  const std::uint8_t* keep = nullptr;  // [batch, q_tokens, k_tokens]
  float* p = nullptr;
};

std::size_t attention_mass_workspace_bytes(const MassSpec& spec);
void attention_mass(const MassSpec& spec, const MassArgs& args, std::byte* workspace);

// Forward, cached and backward in plain loops and double: the definition of the op, the reference
// for tests, and the kernel for f64. The backward pass recomputes its log-sum-exp.
namespace reference {
std::size_t attention_forward_workspace_bytes(const AttentionSpec& spec);
std::size_t attention_backward_workspace_bytes(const AttentionSpec& spec);
void attention_forward(const AttentionSpec& spec, const AttentionForwardArgs& args,
                       const AttentionCache* cache, std::byte* workspace);
void attention_backward(const AttentionSpec& spec, const AttentionBackwardArgs& args,
                        std::byte* workspace);
}  // namespace reference

}  // namespace lamina::cpu
