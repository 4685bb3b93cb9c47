// Tensors of published DeepSeek and Kimi checkpoints, and ours. The host reads the scales beside
// FP8 tensors.

#include "config.h"

namespace deepseek {
namespace {

using namespace lamina::sdk;

// The two halves of kv_b_proj, in files that separate them.
std::vector<Weight> split_weights(std::uint32_t block) {
  constexpr std::string_view kBoth = "model.layers.{L}.self_attn.kv_b_proj.weight";
  return {{block, "attention.wk_b.weight", kBoth, {split(0), part(0, 1)}},
          {block, "attention.wv_b.weight", kBoth, {split(0), part(1, 1)}},
          {block, "attention.wk_b.weight", "blk.{L}.attn_k_b.weight", {kTranspose}},
          {block, "attention.wv_b.weight", "blk.{L}.attn_v_b.weight"}};
}

// Other names in GGUF files.
std::vector<Weight> gguf_weights(std::uint32_t block) {
  return {{block, "moe.router.correction_bias", "blk.{L}.exp_probs_b.bias"},
          {block, "moe.shared.w1.weight", "blk.{L}.ffn_gate_shexp.weight"},
          {block, "moe.shared.w3.weight", "blk.{L}.ffn_up_shexp.weight"},
          {block, "moe.shared.w2.weight", "blk.{L}.ffn_down_shexp.weight"}};
}

std::vector<Weight> layer_weights(std::uint32_t block) {
  const std::pair<std::string_view, std::string_view> kRows[] = {
      {"attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
      {"attention.wq.weight", "model.layers.{L}.self_attn.q_proj.weight"},
      {"attention.wq_a.weight", "model.layers.{L}.self_attn.q_a_proj.weight"},
      {"attention.wq_a.bias", "model.layers.{L}.self_attn.q_a_proj.bias"},
      {"attention.q_norm.weight", "model.layers.{L}.self_attn.q_a_layernorm.weight"},
      {"attention.wq_b.weight", "model.layers.{L}.self_attn.q_b_proj.weight"},
      {"attention.wkv_a.weight", "model.layers.{L}.self_attn.kv_a_proj_with_mqa.weight"},
      {"attention.wkv_a.bias", "model.layers.{L}.self_attn.kv_a_proj_with_mqa.bias"},
      {"attention.kv_norm.weight", "model.layers.{L}.self_attn.kv_a_layernorm.weight"},
      {"attention.wkv_b.weight", "model.layers.{L}.self_attn.kv_b_proj.weight"},
      {"attention.wo.weight", "model.layers.{L}.self_attn.o_proj.weight"},
      {"attention.wo.bias", "model.layers.{L}.self_attn.o_proj.bias"},
      {"attention.indexer.wq_b.weight", "model.layers.{L}.self_attn.indexer.wq_b.weight"},
      {"attention.indexer.wk.weight", "model.layers.{L}.self_attn.indexer.wk.weight"},
      {"attention.indexer.k_norm.weight", "model.layers.{L}.self_attn.indexer.k_norm.weight"},
      {"attention.indexer.k_norm.bias", "model.layers.{L}.self_attn.indexer.k_norm.bias"},
      {"attention.indexer.weights_proj.weight",
       "model.layers.{L}.self_attn.indexer.weights_proj.weight"},
      {"ffn_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"},
      {"feed_forward.w1.weight", "model.layers.{L}.mlp.gate_proj.weight"},
      {"feed_forward.w3.weight", "model.layers.{L}.mlp.up_proj.weight"},
      {"feed_forward.w2.weight", "model.layers.{L}.mlp.down_proj.weight"},
      {"moe.router.weight", "model.layers.{L}.mlp.gate.weight"},
      {"moe.router.correction_bias", "model.layers.{L}.mlp.gate.e_score_correction_bias"},
      {"moe.experts.w1.weight", "model.layers.{L}.mlp.experts.{E}.gate_proj.weight"},
      {"moe.experts.w3.weight", "model.layers.{L}.mlp.experts.{E}.up_proj.weight"},
      {"moe.experts.w2.weight", "model.layers.{L}.mlp.experts.{E}.down_proj.weight"},
      {"moe.shared.w1.weight", "model.layers.{L}.mlp.shared_experts.gate_proj.weight"},
      {"moe.shared.w3.weight", "model.layers.{L}.mlp.shared_experts.up_proj.weight"},
      {"moe.shared.w2.weight", "model.layers.{L}.mlp.shared_experts.down_proj.weight"},
      // Residual streams: V3 is not published with them; the names follow V4's.
      {"mhc_attention.norm.weight", "model.layers.{L}.hc_attn_norm.weight"},
      {"mhc_attention.fn.weight", "model.layers.{L}.hc_attn_fn"},
      {"mhc_attention.base", "model.layers.{L}.hc_attn_base"},
      {"mhc_attention.scale", "model.layers.{L}.hc_attn_scale"},
      {"mhc_ffn.norm.weight", "model.layers.{L}.hc_ffn_norm.weight"},
      {"mhc_ffn.fn.weight", "model.layers.{L}.hc_ffn_fn"},
      {"mhc_ffn.base", "model.layers.{L}.hc_ffn_base"},
      {"mhc_ffn.scale", "model.layers.{L}.hc_ffn_scale"},
  };
  std::vector<Weight> out;
  for (const auto& [ours, published] : kRows) out.push_back({block, ours, published});
  return out + split_weights(block) + gguf_weights(block);
}

}  // namespace

std::vector<Weight> weights() {
  // Files written by transformers lack prediction layers. Published files have them, with copies of
  // the embedding and the head, whatever the config says.
  return weight_rows({outer_weights(), layer_weights(kDense), layer_weights(kMoe),
                      ignored("model.layers.{L}.embed_tokens.weight"),
                      ignored("model.layers.{L}.shared_head.head.weight"),
                      // Some converters write the halves beside the whole matrix.
                      ignored("blk.{L}.attn_k_b.weight"), ignored("blk.{L}.attn_v_b.weight"),
                      ignored_beyond("model.layers.{L}.*")});
}

}  // namespace deepseek
