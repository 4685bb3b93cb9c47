// Tensors of published Llama checkpoints, and ours.

#include "config.h"

namespace llama {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  return weight_rows({outer_weights(),
                      norm_weights(kBlock),
                      attention_weights(kBlock),
                      mlp_weights(kBlock),
                      // A feed-forward without a gate.
                      {kBlock, "feed_forward.wi.weight", "model.layers.{L}.mlp.up_proj.weight"},
                      {kBlock, "feed_forward.wi.bias", "model.layers.{L}.mlp.up_proj.bias"},
                      {kBlock, "feed_forward.wo.weight", "model.layers.{L}.mlp.down_proj.weight"},
                      {kBlock, "feed_forward.wo.bias", "model.layers.{L}.mlp.down_proj.bias"}});
}

// No such checkpoints are published. A teacher is read from a Llama 2: its attention.
std::vector<Weight> learned_weights() {
  std::vector<Weight> rows = weights();
#define LAMINA_LEARNED(ours, theirs)                                         \
  rows.push_back({kBlock, "attention." ours ".teacher.weight",               \
                  "model.layers.{L}.self_attn." theirs ".teacher.weight"});  \
  rows.push_back({kBlock, "attention." ours ".teacher.weight",               \
                  "model.layers.{L}.self_attn." theirs ".weight"});          \
  rows.push_back({kBlock, "attention." ours ".heads.weight",                 \
                  "model.layers.{L}.self_attn." theirs ".heads.weight"});    \
  rows.push_back({kBlock, "attention." ours ".channels.weight",              \
                  "model.layers.{L}.self_attn." theirs ".channels.weight"}); \
  rows.push_back({kBlock, "attention." ours ".map.weight",                   \
                  "model.layers.{L}.self_attn." theirs ".map.weight"})
  LAMINA_LEARNED("wq", "q_proj");
  LAMINA_LEARNED("wk", "k_proj");
  LAMINA_LEARNED("wv", "v_proj");
  LAMINA_LEARNED("wo", "o_proj");
#undef LAMINA_LEARNED
  return rows;
}

}  // namespace llama
