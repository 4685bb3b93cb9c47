// The kernels of the CPU backend: for each op its candidates, best first, each list in the file of
// the op's name. An op that is not here is lowered; constant, iota, fused_map and all elementwise
// ops share elementwise_kernels().
#pragma once

#include <span>

#include "runtime/kernel.h"

// The ops with kernels of their own: LAMINA_CPU_OPS(X) expands X(name) for each.
#define LAMINA_CPU_OPS(X)      \
  X(adamw)                     \
  X(adamw_rows)                \
  X(add_rms_norm)              \
  X(add_rows)                  \
  X(attention)                 \
  X(attention_grad)            \
  X(attention_mass)            \
  X(cache_write)               \
  X(causal_conv1d)             \
  X(causal_conv1d_grad)        \
  X(causal_conv1d_step)        \
  X(combine_rows)              \
  X(combine_rows_grad)         \
  X(compressed_attention_step) \
  X(concat)                    \
  X(copy)                      \
  X(cross_entropy)             \
  X(cross_entropy_grad)        \
  X(dropout)                   \
  X(embedding)                 \
  X(embedding_grad)            \
  X(gated_delta_rule)          \
  X(gated_delta_rule_grad)     \
  X(gated_delta_rule_step)     \
  X(gather_rows)               \
  X(group_rows)                \
  X(grouped_linear)            \
  X(grouped_linear_dw)         \
  X(grouped_linear_dx)         \
  X(extend_window)             \
  X(index_scores)              \
  X(index_scores_grad)         \
  X(index_scores_step)         \
  X(latent_attention_step)     \
  X(layer_norm)                \
  X(layer_norm_grad)           \
  X(linear)                    \
  X(linear_group)              \
  X(matmul)                    \
  X(ngram_hash)                \
  X(ngram_hash_step)           \
  X(pad)                       \
  X(reduce_max)                \
  X(reduce_sum)                \
  X(rms_norm)                  \
  X(rms_norm_grad)             \
  X(rope_table)                \
  X(rotate)                    \
  X(scatter_along)             \
  X(select_rows)               \
  X(sinkhorn)                  \
  X(sinkhorn_grad)             \
  X(slice)                     \
  X(softmax)                   \
  X(sum_of_squares)            \
  X(sum_rows)                  \
  X(take_along)                \
  X(top_k)                     \
  X(top_k_mask)                \
  X(transpose)                 \
  X(window_ends)               \
  X(window_pool)               \
  X(window_pool_grad)

namespace lamina::cpu {

std::span<const KernelChoice> elementwise_kernels();

#define LAMINA_CPU_DECLARE(name) std::span<const KernelChoice> name##_kernels();
LAMINA_CPU_OPS(LAMINA_CPU_DECLARE)
#undef LAMINA_CPU_DECLARE

}  // namespace lamina::cpu
