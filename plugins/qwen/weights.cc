// Tensors of published dense Qwen checkpoints, and ours.

#include "config.h"

namespace qwen {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  return weight_rows({outer_weights(), norm_weights(kBlock), attention_weights(kBlock),
                      mlp_weights(kBlock), ignored("model.visual.*")});
}

}  // namespace qwen
