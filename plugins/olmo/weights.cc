// Tensors of published OLMo 2 and 3 checkpoints, and ours.

#include "config.h"

namespace olmo {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  return weight_rows(
      {outer_weights(),
       attention_weights(kBlock),
       mlp_weights(kBlock),
       {kBlock, "attention_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"},
       {kBlock, "ffn_norm.weight", "model.layers.{L}.post_feedforward_layernorm.weight"}});
}

}  // namespace olmo
