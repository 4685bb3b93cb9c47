// Tensors of published Gemma 4 checkpoints, and ours.

#include "gemma4.h"

namespace gemma::four {
namespace {

using namespace lamina::sdk;

std::vector<Weight> layer_weights(std::uint32_t block) {
  return {
      {block, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
      {block, "post_attention_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"},
      {block, "ffn_norm.weight", "model.layers.{L}.pre_feedforward_layernorm.weight"},
      {block, "post_ffn_norm.weight", "model.layers.{L}.post_feedforward_layernorm.weight"},
      {block, "router.scale", "model.layers.{L}.router.scale"},
      {block, "router.weight", "model.layers.{L}.router.proj.weight"},
      {block, "router.per_expert_scale", "model.layers.{L}.router.per_expert_scale"},
      {block, "moe_norm.weight", "model.layers.{L}.pre_feedforward_layernorm_2.weight"},
      {block, "experts.w1.weight", "model.layers.{L}.experts.gate_up_proj", {part(0, 1)}},
      {block, "experts.w3.weight", "model.layers.{L}.experts.gate_up_proj", {part(1, 1)}},
      {block, "experts.w2.weight", "model.layers.{L}.experts.down_proj"},
      {block, "post_mlp_norm.weight", "model.layers.{L}.post_feedforward_layernorm_1.weight"},
      {block, "post_moe_norm.weight", "model.layers.{L}.post_feedforward_layernorm_2.weight"},
      {block, "per_layer.gate.weight", "model.layers.{L}.per_layer_input_gate.weight"},
      {block, "per_layer.proj.weight", "model.layers.{L}.per_layer_projection.weight"},
      {block, "post_per_layer_norm.weight", "model.layers.{L}.post_per_layer_input_norm.weight"},
      {block, "scale", "model.layers.{L}.layer_scalar"}};
}

// Files also have keys and values of layers that read another layer's.
std::vector<Weight> with_surplus(std::vector<Weight> rows) {
  for (Weight& row : rows)
    if (row.name.starts_with("attention.wk") || row.name.starts_with("attention.wv") ||
        row.name.starts_with("attention.k_norm"))
      row.flags |= LAMINA_HF_SURPLUS;
  return rows;
}

}  // namespace

std::vector<Weight> weights() {
  std::vector<Weight> out =
      outer_weights() +
      std::vector<Weight>{
          {kPerLayerInputs, "tokens.weight", "model.embed_tokens_per_layer.weight"},
          {kPerLayerInputs, "proj.weight", "model.per_layer_model_projection.weight"},
          {kPerLayerInputs, "norm.weight", "model.per_layer_projection_norm.weight"}};
  for (std::uint32_t block : {kLocal, kGlobal, kLocalShared, kGlobalShared})
    out = out + with_surplus(attention_weights(block)) + mlp_weights(block) + layer_weights(block);
  return out;
}

}  // namespace gemma::four
