// Tensors of published gpt-oss checkpoints, and ours. Gate and up are interleaved: even columns
// belong to the gate. Experts are [E, out, in] in MXFP4 files and [E, in, out] in bf16 files. In
// GGUF files, whose names are in the last rows, gate and up are separate.

#include "config.h"

namespace gpt_oss {

using namespace lamina::sdk;

std::vector<Weight> weights() {
  const Transform gate = strided(0, 2, 1), up = strided(1, 2, 1);
  return weight_rows(
      {outer_weights(),
       norm_weights(kBlock),
       attention_weights(kBlock),
       {kBlock, "moe.router.weight", "model.layers.{L}.mlp.router.weight"},
       {kBlock, "moe.router.bias", "model.layers.{L}.mlp.router.bias"},
       {kBlock,
        "moe.experts.w1.weight",
        "model.layers.{L}.mlp.experts.gate_up_proj",
        {kTranspose, gate}},
       {kBlock,
        "moe.experts.w1.weight",
        "model.layers.{L}.mlp.experts.gate_up_proj_blocks",
        {gate}},
       {kBlock,
        "moe.experts.w3.weight",
        "model.layers.{L}.mlp.experts.gate_up_proj",
        {kTranspose, up}},
       {kBlock, "moe.experts.w3.weight", "model.layers.{L}.mlp.experts.gate_up_proj_blocks", {up}},
       {kBlock, "moe.experts.w1.bias", "model.layers.{L}.mlp.experts.gate_up_proj_bias", {gate}},
       {kBlock, "moe.experts.w3.bias", "model.layers.{L}.mlp.experts.gate_up_proj_bias", {up}},
       {kBlock, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.down_proj", {kTranspose}},
       {kBlock, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.down_proj_blocks"},
       {kBlock, "moe.experts.w2.bias", "model.layers.{L}.mlp.experts.down_proj_bias"},
       {kBlock, "attention.sinks", "blk.{L}.attn_sinks.weight"},
       {kBlock, "moe.router.weight", "blk.{L}.ffn_gate_inp.weight"},
       {kBlock, "moe.router.bias", "blk.{L}.ffn_gate_inp.bias"},
       {kBlock, "moe.experts.w1.weight", "blk.{L}.ffn_gate_exps.weight"},
       {kBlock, "moe.experts.w1.bias", "blk.{L}.ffn_gate_exps.bias"},
       {kBlock, "moe.experts.w3.weight", "blk.{L}.ffn_up_exps.weight"},
       {kBlock, "moe.experts.w3.bias", "blk.{L}.ffn_up_exps.bias"},
       {kBlock, "moe.experts.w2.weight", "blk.{L}.ffn_down_exps.weight"},
       {kBlock, "moe.experts.w2.bias", "blk.{L}.ffn_down_exps.bias"}});
}

}  // namespace gpt_oss
