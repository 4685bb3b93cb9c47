// Multi-head latent attention over decode state, and scores of its indexer, on the CPU.
//
// Latents are not expanded to keys and values: with w_kv = [W_K; W_V] for each head n,
//   latent y[n]  = W_V[n] o[n]
// so the state of a token serves all heads at once. Sums are f32, q' and o are rounded to the
// dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct LatentSpec {
  DType dtype = DType::f32;  // of all tensors: f32 or bf16
  std::int64_t batch = 0;
  std::int64_t tokens = 0;    // new ones
  std::int64_t capacity = 0;  // slots of the state
  std::int64_t heads = 0;
  std::int64_t nope_dim = 0, rope_dim = 0, v_dim = 0;
  std::int64_t rank = 0;  // width of a latent; even for bf16
  double scale = 1;
  double soft_cap = 0;  // 0: none
};

// Contiguous: q[batch, tokens, heads, nope_dim + rope_dim], latent[batch, capacity, rank],
// k_rope[batch, capacity, rope_dim], w_kv[heads * (nope_dim + v_dim), rank], y[batch, tokens,
// heads, v_dim]. Token t of row b is at starts[b] + t and sees the slots up to there.
struct LatentArgs {
  const void *q = nullptr, *latent = nullptr, *k_rope = nullptr, *w_kv = nullptr;
  const std::int32_t* starts = nullptr;  // [batch]
  const std::uint8_t* keep = nullptr;    // [batch, tokens, capacity], 0 forbids; null: all are kept
  void* y = nullptr;
};

// Returns the bytes of workspace for a run, aligned to 64; they depend on the spec and on
// num_threads().
std::size_t latent_attention_workspace_bytes(const LatentSpec& spec);
void latent_attention(const LatentSpec& spec, const LatentArgs& args, std::byte* workspace);

struct IndexSpec {
  DType dtype = DType::f32;  // of q and k: f32 or bf16
  std::int64_t batch = 0, tokens = 0, keys = 0, heads = 0, dim = 0;
};

// scores[b, t, s] = sum over i of weights[b, t, i] max(0, q[b, t, i] . k[b, s]), all contiguous.
struct IndexArgs {
  const void *q = nullptr, *k = nullptr;
  const float* weights = nullptr;
  const std::int32_t* ends = nullptr;  // [batch]: later keys score 0; null: all count
  float* scores = nullptr;
};

// Gradients of index_scores; dq and dk have the dtype of q and k. dk and dweights may be null.
struct IndexGradArgs {
  const void *q = nullptr, *k = nullptr;
  const float *weights = nullptr, *dscores = nullptr;
  void *dq = nullptr, *dk = nullptr;
  float* dweights = nullptr;
};

std::size_t index_scores_workspace_bytes(const IndexSpec& spec);
void index_scores(const IndexSpec& spec, const IndexArgs& args, std::byte* workspace);
std::size_t index_scores_grad_workspace_bytes(const IndexSpec& spec);
void index_scores_grad(const IndexSpec& spec, const IndexGradArgs& args, std::byte* workspace);

}  // namespace lamina::cpu
