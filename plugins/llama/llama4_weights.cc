// Tensors of published Llama 4 checkpoints, and ours. Experts are [E, in, out], gate before up; in
// GGUF files, whose names are in some rows, gate and up are [E, out, in] each.

#include "llama4.h"

namespace llama {
namespace {

using namespace lamina::sdk;

std::vector<Weight> layer_weights(std::uint32_t block) {
  return norm_weights(block) + attention_weights(block);
}

std::vector<Weight> dense_weights(std::uint32_t block) {
  return weight_rows(
      {layer_weights(block),
       {block, "feed_forward.w1.weight", "model.layers.{L}.feed_forward.gate_proj.weight"},
       {block, "feed_forward.w3.weight", "model.layers.{L}.feed_forward.up_proj.weight"},
       {block, "feed_forward.w2.weight", "model.layers.{L}.feed_forward.down_proj.weight"},
       {block, "feed_forward.w1.weight", "blk.{L}.ffn_gate.weight"},
       {block, "feed_forward.w3.weight", "blk.{L}.ffn_up.weight"},
       {block, "feed_forward.w2.weight", "blk.{L}.ffn_down.weight"}});
}

std::vector<Weight> moe_weights(std::uint32_t block) {
  return weight_rows({layer_weights(block),
                      {block, "moe.router.weight", "model.layers.{L}.feed_forward.router.weight"},
                      {block,
                       "moe.experts.w1.weight",
                       "model.layers.{L}.feed_forward.experts.gate_up_proj",
                       {kTranspose, part(0, 1)}},
                      {block,
                       "moe.experts.w3.weight",
                       "model.layers.{L}.feed_forward.experts.gate_up_proj",
                       {kTranspose, part(1, 1)}},
                      {block,
                       "moe.experts.w2.weight",
                       "model.layers.{L}.feed_forward.experts.down_proj",
                       {kTranspose}},
                      {block, "moe.shared.w1.weight",
                       "model.layers.{L}.feed_forward.shared_expert.gate_proj.weight"},
                      {block, "moe.shared.w3.weight",
                       "model.layers.{L}.feed_forward.shared_expert.up_proj.weight"},
                      {block, "moe.shared.w2.weight",
                       "model.layers.{L}.feed_forward.shared_expert.down_proj.weight"},
                      {block, "moe.router.weight", "blk.{L}.ffn_gate_inp.weight"},
                      {block, "moe.experts.w1.weight", "blk.{L}.ffn_gate_exps.weight"},
                      {block, "moe.experts.w3.weight", "blk.{L}.ffn_up_exps.weight"},
                      {block, "moe.experts.w2.weight", "blk.{L}.ffn_down_exps.weight"},
                      {block, "moe.shared.w1.weight", "blk.{L}.ffn_gate_shexp.weight"},
                      {block, "moe.shared.w3.weight", "blk.{L}.ffn_up_shexp.weight"},
                      {block, "moe.shared.w2.weight", "blk.{L}.ffn_down_shexp.weight"}});
}

}  // namespace

std::vector<Weight> llama4_weights() {
  return weight_rows({outer_weights(), dense_weights(kChunkedDense), dense_weights(kGlobalDense),
                      moe_weights(kChunkedMoe), moe_weights(kGlobalMoe), ignored("vision_model.*"),
                      ignored("multi_modal_projector.*")});
}

}  // namespace llama
