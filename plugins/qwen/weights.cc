// Tensors of published dense Qwen checkpoints, and ours.

#include "config.h"

namespace qwen {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  return outer_weights() + norm_weights(kBlock) + attention_weights(kBlock) + mlp_weights(kBlock) +
         std::vector<Weight>{ignored("model.visual.*")};
}

}  // namespace qwen
