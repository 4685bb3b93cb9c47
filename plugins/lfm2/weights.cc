// Tensors of published LFM2 checkpoints, and ours. In GGUF files, whose names are in some rows, the
// final norm has the name of a norm of embeddings.

#include "config.h"

namespace lfm2 {

using namespace lamina::sdk;

namespace {

// The rows of both kinds of layers.
std::vector<Weight> shared_weights(std::uint32_t block) {
  return weight_rows(
      {norm_weights(block, "model.layers.{L}.", {.attention = "operator_norm", .ffn = "ffn_norm"}),
       mlp_weights(block, "model.layers.{L}.feed_forward.", {.w1 = "w1", .w3 = "w3", .w2 = "w2"}),
       {block, "attention_norm.weight", "blk.{L}.attn_norm.weight"},
       {block, "ffn_norm.weight", "blk.{L}.ffn_norm.weight"},
       {block, "feed_forward.w1.weight", "blk.{L}.ffn_gate.weight"},
       {block, "feed_forward.w3.weight", "blk.{L}.ffn_up.weight"},
       {block, "feed_forward.w2.weight", "blk.{L}.ffn_down.weight"}});
}

}  // namespace

std::vector<Weight> weights() {
  return weight_rows(
      {outer_weights("model.", {.norm = "embedding_norm.weight"}),
       {0, LAMINA_NAME_NORM, "token_embd_norm.weight"},
       shared_weights(kConv),
       {kConv, "conv.conv.weight", "model.layers.{L}.conv.conv.weight", {squeezed(1)}},
       same_names(kConv, "model.layers.{L}.",
                  "conv.conv.bias conv.in_proj.weight conv.in_proj.bias conv.out_proj.weight "
                  "conv.out_proj.bias"),
       {kConv, "conv.conv.weight", "blk.{L}.shortconv.conv.weight"},
       {kConv, "conv.in_proj.weight", "blk.{L}.shortconv.in_proj.weight"},
       {kConv, "conv.out_proj.weight", "blk.{L}.shortconv.out_proj.weight"},
       shared_weights(kAttention),
       attention_weights(kAttention, "model.layers.{L}.self_attn.",
                         {.out = "out_proj", .q_norm = "q_layernorm", .k_norm = "k_layernorm"}),
       {kAttention, "attention.wo.weight", "blk.{L}.attn_output.weight"},
       {kAttention, "attention.q_norm.weight", "blk.{L}.attn_q_norm.weight"},
       {kAttention, "attention.k_norm.weight", "blk.{L}.attn_k_norm.weight"}});
}

}  // namespace lfm2
