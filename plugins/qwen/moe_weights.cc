// Tensors of published Qwen checkpoints with mixtures of experts, and ours.

#include "moe.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

// Experts one by one; in Qwen3-VL also all in one tensor: [E, D, 2 F] and [E, F, D] as published,
// [E, 2 F, D] and [E, D, F] as Transformers 5 writes them. Like Transformers, the host takes a
// square matrix for the second, which is the last row.
std::vector<Weight> expert_weights(std::uint32_t block) {
  return weight_rows(
      {mixture_weights(block),
       {block,
        "moe.experts.w1.weight",
        "model.layers.{L}.mlp.experts.gate_up_proj",
        {kTranspose, part(0, 1)}},
       {block,
        "moe.experts.w3.weight",
        "model.layers.{L}.mlp.experts.gate_up_proj",
        {kTranspose, part(1, 1)}},
       {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.down_proj", {kTranspose}},
       {block, "moe.experts.w1.weight", "model.layers.{L}.mlp.experts.gate_up_proj", {part(0, 1)}},
       {block, "moe.experts.w3.weight", "model.layers.{L}.mlp.experts.gate_up_proj", {part(1, 1)}},
       {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.down_proj"}});
}

}  // namespace

std::vector<Weight> moe_weights() {
  return outer_weights() + attention_weights(kDense) + norm_weights(kDense) + mlp_weights(kDense) +
         attention_weights(kSparse) + norm_weights(kSparse) + expert_weights(kSparse);
}

// No such checkpoints are published.
std::vector<Weight> custom_moe_weights() {
  return weight_rows(
      {outer_weights(),
       attention_weights(kCustom),
       norm_weights(kCustom),
       expert_weights(kCustom),
       {kCustom, "latent_norm.weight", "model.layers.{L}.latent_norm.weight"},
       {kCustom, "up_projection.weight", "model.layers.{L}.layer_up_projection.weight"}});
}

}  // namespace qwen
