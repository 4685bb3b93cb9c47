// Tensors of published Gemma checkpoints, and ours. Published norm weights are added to 1; in GGUF
// files, whose names are in some rows, 1 is already added.

#include "config.h"

namespace gemma {

using namespace lamina::sdk;

namespace {

std::vector<Weight> gguf_final_norm() {
  return {{0, LAMINA_NAME_NORM, "output_norm.weight", {added(-1)}}};
}

// The norms that all Gemmas have.
std::vector<Weight> gguf_norms(std::uint32_t block) {
  return {{block, "attention_norm.weight", "blk.{L}.attn_norm.weight", {added(-1)}},
          {block, "ffn_norm.weight", "blk.{L}.ffn_norm.weight", {added(-1)}}};
}

}  // namespace

std::vector<Weight> gemma_weights() {
  return outer_weights() + norm_weights(kGlobal) + attention_weights(kGlobal) +
         mlp_weights(kGlobal) + gguf_final_norm() + gguf_norms(kGlobal);
}

std::vector<Weight> sandwich_weights() {
  std::vector<Weight> out = outer_weights() + gguf_final_norm();
  for (std::uint32_t block : {kLocal, kGlobal})
    out = out + attention_weights(block) + mlp_weights(block) +
          std::vector<Weight>{
              {block, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
              {block, "post_attention_norm.weight",
               "model.layers.{L}.post_attention_layernorm.weight"},
              {block, "ffn_norm.weight", "model.layers.{L}.pre_feedforward_layernorm.weight"},
              {block, "post_ffn_norm.weight", "model.layers.{L}.post_feedforward_layernorm.weight"},
              {block, "attention.q_norm.weight", "blk.{L}.attn_q_norm.weight", {added(-1)}},
              {block, "attention.k_norm.weight", "blk.{L}.attn_k_norm.weight", {added(-1)}},
              {block,
               "post_attention_norm.weight",
               "blk.{L}.post_attention_norm.weight",
               {added(-1)}},
              {block, "post_ffn_norm.weight", "blk.{L}.post_ffw_norm.weight", {added(-1)}}} +
          gguf_norms(block);
  return out;
}

}  // namespace gemma
