// Tensors of published Phi-3 checkpoints, and ours. Projections of one input are one tensor there.

#include "config.h"

namespace phi {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  const std::string_view qkv = "model.layers.{L}.self_attn.qkv_proj.weight";
  const std::string_view gate_up = "model.layers.{L}.mlp.gate_up_proj.weight";
  return weight_rows({outer_weights(),
                      norm_weights(kBlock),
                      {kBlock, "attention.wq.weight", qkv, {part(0, 0)}},
                      {kBlock, "attention.wk.weight", qkv, {part(1, 0)}},
                      {kBlock, "attention.wv.weight", qkv, {part(2, 0)}},
                      {kBlock, "attention.wo.weight", "model.layers.{L}.self_attn.o_proj.weight"},
                      {kBlock, "feed_forward.w1.weight", gate_up, {part(0, 0)}},
                      {kBlock, "feed_forward.w3.weight", gate_up, {part(1, 0)}},
                      {kBlock, "feed_forward.w2.weight", "model.layers.{L}.mlp.down_proj.weight"},
                      // In GGUF files.
                      {kBlock, "attention.wq.weight", "blk.{L}.attn_qkv.weight", {part(0, 0)}},
                      {kBlock, "attention.wk.weight", "blk.{L}.attn_qkv.weight", {part(1, 0)}},
                      {kBlock, "attention.wv.weight", "blk.{L}.attn_qkv.weight", {part(2, 0)}},
                      {kBlock, "feed_forward.w1.weight", "blk.{L}.ffn_up.weight", {part(0, 0)}},
                      {kBlock, "feed_forward.w3.weight", "blk.{L}.ffn_up.weight", {part(1, 0)}}});
}

}  // namespace phi
