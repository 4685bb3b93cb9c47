// Tensors of published Qwen checkpoints with mixtures of experts, and ours.

#include "moe.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

std::vector<Weight> mixture_weights(std::uint32_t block) {
  return {{block, "moe.router.weight", "model.layers.{L}.mlp.gate.weight"},
          {block, "moe.experts.w1.weight", "model.layers.{L}.mlp.experts.{E}.gate_proj.weight"},
          {block, "moe.experts.w3.weight", "model.layers.{L}.mlp.experts.{E}.up_proj.weight"},
          {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.{E}.down_proj.weight"},
          // Qwen3-VL: all experts in one tensor, [E, D, 2 F] and [E, F, D].
          {block,
           "moe.experts.w1.weight",
           "model.layers.{L}.mlp.experts.gate_up_proj",
           {kTranspose, part(0, 1)}},
          {block,
           "moe.experts.w3.weight",
           "model.layers.{L}.mlp.experts.gate_up_proj",
           {kTranspose, part(1, 1)}},
          {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.down_proj", {kTranspose}}};
}

std::vector<Weight> norm_weights(std::uint32_t block) {
  return {{block, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
          {block, "ffn_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"}};
}

}  // namespace

std::vector<Weight> moe_weights() {
  return outer_weights() + attention_weights(kDense) + norm_weights(kDense) + mlp_weights(kDense) +
         attention_weights(kSparse) + norm_weights(kSparse) + mixture_weights(kSparse);
}

// Nobody publishes such checkpoints.
std::vector<Weight> custom_moe_weights() {
  return outer_weights() + attention_weights(kCustom) + norm_weights(kCustom) +
         mixture_weights(kCustom) +
         std::vector<Weight>{
             {kCustom, "latent_norm.weight", "model.layers.{L}.latent_norm.weight"},
             {kCustom, "up_projection.weight", "model.layers.{L}.layer_up_projection.weight"}};
}

}  // namespace qwen
