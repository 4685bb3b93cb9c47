// Tensors of published GPT-2 checkpoints, and ours. Published matrices are [in, out], except in
// GGUF files, whose names are in the last rows.

#include "config.h"

namespace gpt3 {

std::vector<lamina::sdk::Weight> weights() {
  using lamina::sdk::ignored;
  using lamina::sdk::kTranspose;
  return {
      {0, LAMINA_NAME_EMBED, "wte.weight"},
      {0, LAMINA_NAME_POSITIONS, "wpe.weight"},
      {0, LAMINA_NAME_NORM, "ln_f.weight"},
      {0, LAMINA_NAME_NORM_BIAS, "ln_f.bias"},
      {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
      {kBlock, "ln_1.weight", "h.{L}.ln_1.weight"},
      {kBlock, "ln_1.bias", "h.{L}.ln_1.bias"},
      {kBlock, "attn.c_attn.weight", "h.{L}.attn.c_attn.weight", {kTranspose}},
      {kBlock, "attn.c_attn.bias", "h.{L}.attn.c_attn.bias"},
      {kBlock, "attn.c_proj.weight", "h.{L}.attn.c_proj.weight", {kTranspose}},
      {kBlock, "attn.c_proj.bias", "h.{L}.attn.c_proj.bias"},
      {kBlock, "ln_2.weight", "h.{L}.ln_2.weight"},
      {kBlock, "ln_2.bias", "h.{L}.ln_2.bias"},
      {kBlock, "mlp.c_fc.weight", "h.{L}.mlp.c_fc.weight", {kTranspose}},
      {kBlock, "mlp.c_fc.bias", "h.{L}.mlp.c_fc.bias"},
      {kBlock, "mlp.c_proj.weight", "h.{L}.mlp.c_proj.weight", {kTranspose}},
      {kBlock, "mlp.c_proj.bias", "h.{L}.mlp.c_proj.bias"},
      // The causal mask, and the score of masked keys in older versions.
      ignored("h.{L}.attn.bias"),
      ignored("h.{L}.attn.masked_bias"),
      {0, LAMINA_NAME_EMBED, "token_embd.weight"},
      {0, LAMINA_NAME_POSITIONS, "position_embd.weight"},
      {0, LAMINA_NAME_NORM, "output_norm.weight"},
      {0, LAMINA_NAME_NORM_BIAS, "output_norm.bias"},
      {kBlock, "ln_1.weight", "blk.{L}.attn_norm.weight"},
      {kBlock, "ln_1.bias", "blk.{L}.attn_norm.bias"},
      {kBlock, "attn.c_attn.weight", "blk.{L}.attn_qkv.weight"},
      {kBlock, "attn.c_attn.bias", "blk.{L}.attn_qkv.bias"},
      {kBlock, "attn.c_proj.weight", "blk.{L}.attn_output.weight"},
      {kBlock, "attn.c_proj.bias", "blk.{L}.attn_output.bias"},
      {kBlock, "ln_2.weight", "blk.{L}.ffn_norm.weight"},
      {kBlock, "ln_2.bias", "blk.{L}.ffn_norm.bias"},
      {kBlock, "mlp.c_fc.weight", "blk.{L}.ffn_up.weight"},
      {kBlock, "mlp.c_fc.bias", "blk.{L}.ffn_up.bias"},
      {kBlock, "mlp.c_proj.weight", "blk.{L}.ffn_down.weight"},
      {kBlock, "mlp.c_proj.bias", "blk.{L}.ffn_down.bias"},
  };
}

}  // namespace gpt3
