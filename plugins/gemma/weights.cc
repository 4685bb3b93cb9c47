// Tensors of published Gemma checkpoints, and ours. Published norm weights are what is added to 1.

#include "config.h"

namespace gemma {

using namespace lamina::sdk;

std::vector<Weight> gemma_weights() {
  return outer_weights() + norm_weights(kGlobal) + attention_weights(kGlobal) +
         mlp_weights(kGlobal);
}

std::vector<Weight> sandwich_weights() {
  std::vector<Weight> out = outer_weights();
  for (std::uint32_t block : {kLocal, kGlobal})
    out =
        out + attention_weights(block) + mlp_weights(block) +
        std::vector<Weight>{
            {block, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
            {block, "post_attention_norm.weight",
             "model.layers.{L}.post_attention_layernorm.weight"},
            {block, "ffn_norm.weight", "model.layers.{L}.pre_feedforward_layernorm.weight"},
            {block, "post_ffn_norm.weight", "model.layers.{L}.post_feedforward_layernorm.weight"}};
  return out;
}

}  // namespace gemma
