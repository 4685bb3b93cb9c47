// Tensors of published Llama and Mistral checkpoints, and ours.

#include "config.h"

namespace llama {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  return outer_weights() + attention_weights(kBlock) + mlp_weights(kBlock) +
         std::vector<Weight>{
             {kBlock, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
             {kBlock, "ffn_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"},
         };
}

}  // namespace llama
