// Tensors of published Qwen 3 Next and Qwen 3.5 checkpoints, and ours.

#include "next.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

std::vector<Weight> delta_net_weights(std::uint32_t block) {
  return {
      {block, "linear_attention.in_proj_qkvz.weight",
       "model.layers.{L}.linear_attn.in_proj_qkvz.weight"},
      {block, "linear_attention.in_proj_ba.weight",
       "model.layers.{L}.linear_attn.in_proj_ba.weight"},
      {block, "linear_attention.in_proj_qkv.weight",
       "model.layers.{L}.linear_attn.in_proj_qkv.weight"},
      {block, "linear_attention.in_proj_z.weight", "model.layers.{L}.linear_attn.in_proj_z.weight"},
      {block, "linear_attention.in_proj_b.weight", "model.layers.{L}.linear_attn.in_proj_b.weight"},
      {block, "linear_attention.in_proj_a.weight", "model.layers.{L}.linear_attn.in_proj_a.weight"},
      {block,
       "linear_attention.conv.weight",
       "model.layers.{L}.linear_attn.conv1d.weight",
       {squeezed(1)}},
      {block, "linear_attention.a_log", "model.layers.{L}.linear_attn.A_log"},
      {block, "linear_attention.dt_bias", "model.layers.{L}.linear_attn.dt_bias"},
      {block, "linear_attention.norm.weight", "model.layers.{L}.linear_attn.norm.weight"},
      {block, "linear_attention.out_proj.weight", "model.layers.{L}.linear_attn.out_proj.weight"},
  };
}

// One tensor per expert in Qwen 3 Next, one for all experts in Qwen 3.5.
std::vector<Weight> expert_weights(std::uint32_t block, bool fused) {
  if (!fused) return mixture_weights(block);
  return {
      {block, "moe.router.weight", "model.layers.{L}.mlp.gate.weight"},
      {block, "moe.experts.w1.weight", "model.layers.{L}.mlp.experts.gate_up_proj", {part(0, 1)}},
      {block, "moe.experts.w3.weight", "model.layers.{L}.mlp.experts.gate_up_proj", {part(1, 1)}},
      {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.down_proj"},
      // Prediction layers may also have one tensor per expert.
      {block, "moe.experts.w1.weight", "model.layers.{L}.mlp.experts.{E}.gate_proj.weight"},
      {block, "moe.experts.w3.weight", "model.layers.{L}.mlp.experts.{E}.up_proj.weight"},
      {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.{E}.down_proj.weight"}};
}

std::vector<Weight> sparse_weights(std::uint32_t block, bool fused) {
  return weight_rows(
      {{block, "moe.shared_expert.w1.weight",
        "model.layers.{L}.mlp.shared_expert.gate_proj.weight"},
       {block, "moe.shared_expert.w3.weight", "model.layers.{L}.mlp.shared_expert.up_proj.weight"},
       {block, "moe.shared_expert.w2.weight",
        "model.layers.{L}.mlp.shared_expert.down_proj.weight"},
       {block, "moe.shared_expert_gate.weight", "model.layers.{L}.mlp.shared_expert_gate.weight"},
       expert_weights(block, fused)});
}

std::vector<Weight> all_weights(bool fused) {
  std::vector<Weight> rows = outer_weights();
  for (std::uint32_t block : {kLinearDense, kLinearSparse, kFullDense, kFullSparse}) {
    const bool linear = block == kLinearDense || block == kLinearSparse;
    const bool dense = block == kLinearDense || block == kFullDense;
    rows = rows + norm_weights(block) +
           (linear ? delta_net_weights(block) : attention_weights(block)) +
           (dense ? mlp_weights(block) : sparse_weights(block, fused));
  }
  return rows;
}

}  // namespace

std::vector<Weight> next_weights() { return all_weights(false); }

std::vector<Weight> qwen3_5_weights() {
  return weight_rows({all_weights(true), ignored("model.visual.*")});
}

}  // namespace qwen
