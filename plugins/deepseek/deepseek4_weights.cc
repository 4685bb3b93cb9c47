// Tensors of published DeepSeek V4 checkpoints, and ours.

#include "deepseek4.h"

namespace deepseek4 {
namespace {

using namespace lamina::sdk;

std::vector<Weight> stream_weights(std::uint32_t block, std::string_view ours_fn,
                                   std::string_view ours_base, std::string_view ours_scale,
                                   std::string_view fn, std::string_view base,
                                   std::string_view scale) {
  return {{block, ours_fn, fn}, {block, ours_base, base}, {block, ours_scale, scale}};
}

std::vector<Weight> attention_rows(std::uint32_t b) {
  return {
      {b, "attention_norm.weight", "layers.{L}.attn_norm.weight"},
      {b, "attention.wq_a.weight", "layers.{L}.attn.wq_a.weight"},
      {b, "attention.q_norm.weight", "layers.{L}.attn.q_norm.weight"},
      {b, "attention.wq_b.weight", "layers.{L}.attn.wq_b.weight"},
      {b, "attention.wkv.weight", "layers.{L}.attn.wkv.weight"},
      {b, "attention.kv_norm.weight", "layers.{L}.attn.kv_norm.weight"},
      {b, "attention.kv_norm.weight", "layers.{L}.attn.norm.weight"},  // as transformers saves it
      {b, "attention.sinks", "layers.{L}.attn.attn_sink"},
      {b, "attention.wo_a.weight", "layers.{L}.attn.wo_a.weight", {split(0)}},
      {b, "attention.wo_b.weight", "layers.{L}.attn.wo_b.weight"},
      {b, "attention.compressor.wkv.weight", "layers.{L}.attn.compressor.wkv.weight"},
      {b, "attention.compressor.wgate.weight", "layers.{L}.attn.compressor.wgate.weight"},
      {b, "attention.compressor.position_bias", "layers.{L}.attn.compressor.ape"},
      {b, "attention.compressor.norm.weight", "layers.{L}.attn.compressor.norm.weight"},
      {b, "attention.indexer.wq_b.weight", "layers.{L}.attn.indexer.wq_b.weight"},
      {b, "attention.indexer.weights_proj.weight", "layers.{L}.attn.indexer.weights_proj.weight"},
      {b, "attention.indexer.compressor.wkv.weight",
       "layers.{L}.attn.indexer.compressor.wkv.weight"},
      {b, "attention.indexer.compressor.wgate.weight",
       "layers.{L}.attn.indexer.compressor.wgate.weight"},
      {b, "attention.indexer.compressor.position_bias", "layers.{L}.attn.indexer.compressor.ape"},
      {b, "attention.indexer.compressor.norm.weight",
       "layers.{L}.attn.indexer.compressor.norm.weight"}};
}

std::vector<Weight> mixture_rows(std::uint32_t b) {
  return {{b, "ffn_norm.weight", "layers.{L}.ffn_norm.weight"},
          {b, "moe.experts_of_token", "layers.{L}.ffn.gate.tid2eid"},
          {b, "moe.router.weight", "layers.{L}.ffn.gate.weight"},
          {b, "moe.router.correction_bias", "layers.{L}.ffn.gate.bias"},
          {b, "moe.experts.w1.weight", "layers.{L}.ffn.experts.{E}.w1.weight"},
          {b, "moe.experts.w3.weight", "layers.{L}.ffn.experts.{E}.w3.weight"},
          {b, "moe.experts.w2.weight", "layers.{L}.ffn.experts.{E}.w2.weight"},
          {b, "moe.shared.w1.weight", "layers.{L}.ffn.shared_experts.w1.weight"},
          {b, "moe.shared.w3.weight", "layers.{L}.ffn.shared_experts.w3.weight"},
          {b, "moe.shared.w2.weight", "layers.{L}.ffn.shared_experts.w2.weight"}};
}

std::vector<Weight> layer_rows(std::uint32_t b) {
  return attention_rows(b) + mixture_rows(b) +
         stream_weights(b, "mhc_attention.fn.weight", "mhc_attention.base", "mhc_attention.scale",
                        "layers.{L}.hc_attn_fn", "layers.{L}.hc_attn_base",
                        "layers.{L}.hc_attn_scale") +
         stream_weights(b, "mhc_ffn.fn.weight", "mhc_ffn.base", "mhc_ffn.scale",
                        "layers.{L}.hc_ffn_fn", "layers.{L}.hc_ffn_base",
                        "layers.{L}.hc_ffn_scale");
}

}  // namespace

std::vector<Weight> weights() {
  std::vector<Weight> out = {{0, LAMINA_NAME_EMBED, "embed.weight"},
                             {0, LAMINA_NAME_EMBED, "embed_tokens.weight"},
                             {0, LAMINA_NAME_NORM, "norm.weight"},
                             {0, LAMINA_NAME_HEAD, "head.weight", {}, LAMINA_HF_TIED}};
  out = out + stream_weights(kExit, "mhc_head.fn.weight", "mhc_head.base", "mhc_head.scale",
                             "hc_head_fn", "hc_head_base", "hc_head_scale");
  // transformers reads the published names and writes others: these, and the one for kv_norm.
  out = out + stream_weights(kExit, "mhc_head.fn.weight", "mhc_head.base", "mhc_head.scale",
                             "hc_head.hc_fn", "hc_head.hc_base", "hc_head.hc_scale");
  for (std::uint32_t block :
       {kWindowScore, kWindowHash, kSparseScore, kSparseHash, kHeavyScore, kHeavyHash})
    out = out + layer_rows(block);
  return out;
}

}  // namespace deepseek4
