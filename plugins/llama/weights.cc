// Tensors of published Llama and Mistral checkpoints, and ours.

#include "config.h"

namespace llama {

std::vector<lamina::sdk::Weight> weights() {
  return {
      {0, LAMINA_NAME_EMBED, "model.embed_tokens.weight"},
      {0, LAMINA_NAME_NORM, "model.norm.weight"},
      {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
      {kBlock, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
      {kBlock, "attention.wq.weight", "model.layers.{L}.self_attn.q_proj.weight"},
      {kBlock, "attention.wq.bias", "model.layers.{L}.self_attn.q_proj.bias"},
      {kBlock, "attention.wk.weight", "model.layers.{L}.self_attn.k_proj.weight"},
      {kBlock, "attention.wk.bias", "model.layers.{L}.self_attn.k_proj.bias"},
      {kBlock, "attention.wv.weight", "model.layers.{L}.self_attn.v_proj.weight"},
      {kBlock, "attention.wv.bias", "model.layers.{L}.self_attn.v_proj.bias"},
      {kBlock, "attention.wo.weight", "model.layers.{L}.self_attn.o_proj.weight"},
      {kBlock, "attention.wo.bias", "model.layers.{L}.self_attn.o_proj.bias"},
      {kBlock, "ffn_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"},
      {kBlock, "feed_forward.w1.weight", "model.layers.{L}.mlp.gate_proj.weight"},
      {kBlock, "feed_forward.w1.bias", "model.layers.{L}.mlp.gate_proj.bias"},
      {kBlock, "feed_forward.w3.weight", "model.layers.{L}.mlp.up_proj.weight"},
      {kBlock, "feed_forward.w3.bias", "model.layers.{L}.mlp.up_proj.bias"},
      {kBlock, "feed_forward.w2.weight", "model.layers.{L}.mlp.down_proj.weight"},
      {kBlock, "feed_forward.w2.bias", "model.layers.{L}.mlp.down_proj.bias"},
      // Frequencies, which follow from the config.
      lamina::sdk::ignored("model.layers.{L}.self_attn.rotary_emb.inv_freq"),
  };
}

}  // namespace llama
