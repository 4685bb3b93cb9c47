// Tensors of published Mistral checkpoints, and ours.

#include "config.h"

namespace mistral {

using namespace lamina::sdk;

namespace {

std::vector<Weight> shared_weights() {
  return outer_weights() + norm_weights(kBlock) + attention_weights(kBlock);
}

}  // namespace

std::vector<Weight> mistral_weights() { return shared_weights() + mlp_weights(kBlock); }

std::vector<Weight> mixtral_weights() {
  return weight_rows(
      {shared_weights(),
       {kBlock, "moe.router.weight", "model.layers.{L}.block_sparse_moe.gate.weight"},
       {kBlock, "moe.experts.w1.weight", "model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight"},
       {kBlock, "moe.experts.w3.weight", "model.layers.{L}.block_sparse_moe.experts.{E}.w3.weight"},
       {kBlock, "moe.experts.w2.weight", "model.layers.{L}.block_sparse_moe.experts.{E}.w2.weight"},
       // In GGUF files; old ones have experts one by one.
       {kBlock, "moe.router.weight", "blk.{L}.ffn_gate_inp.weight"},
       {kBlock, "moe.experts.w1.weight", "blk.{L}.ffn_gate_exps.weight"},
       {kBlock, "moe.experts.w3.weight", "blk.{L}.ffn_up_exps.weight"},
       {kBlock, "moe.experts.w2.weight", "blk.{L}.ffn_down_exps.weight"},
       {kBlock, "moe.experts.w1.weight", "blk.{L}.ffn_gate.{E}.weight"},
       {kBlock, "moe.experts.w3.weight", "blk.{L}.ffn_up.{E}.weight"},
       {kBlock, "moe.experts.w2.weight", "blk.{L}.ffn_down.{E}.weight"}});
}

}  // namespace mistral
