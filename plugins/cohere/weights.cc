// Tensors of published Cohere checkpoints, and ours.

#include "config.h"

namespace cohere {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  std::vector<Weight> out = outer_weights();
  for (std::uint32_t block : {kRotating, kGlobal})
    out = weight_rows({out,
                       attention_weights(block),
                       mlp_weights(block),
                       {block, "norm.weight", "model.layers.{L}.input_layernorm.weight"}});
  return out;
}

}  // namespace cohere
