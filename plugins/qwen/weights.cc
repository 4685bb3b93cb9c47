// Tensors of published dense Qwen checkpoints, and ours.

#include "config.h"

namespace qwen {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  return outer_weights() + attention_weights(kBlock) + mlp_weights(kBlock) +
         std::vector<Weight>{
             {kBlock, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
             {kBlock, "ffn_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"},
             ignored("model.visual.*"),
         };
}

}  // namespace qwen
