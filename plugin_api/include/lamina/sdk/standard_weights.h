// Rows of the tensor map for tensors that most families publish under the same names. The scopes in
// the block must be "attention_norm", "attention", "ffn_norm", "feed_forward", "moe".
//
//   std::vector<Weight> weights() {
//     return outer_weights() + norm_weights(kBlock) + attention_weights(kBlock) +
//            mlp_weights(kBlock) + std::vector<Weight>{{kBlock, "gate.weight", "..."}};
//   }
#pragma once

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "lamina/sdk/model.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

inline std::vector<Weight> operator+(std::vector<Weight> a, const std::vector<Weight>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Parameters whose published names are `prefix`, eg: "model.layers.{L}.", followed by ours.
// `names`: constants, separated by spaces.
inline std::vector<Weight> same_names(std::uint32_t block, std::string_view prefix,
                                      std::string_view names,
                                      const std::vector<Transform>& transforms = {}) {
  static std::mutex mutex;
  static std::set<std::string> published;  // text that rows point to
  const std::lock_guard lock(mutex);
  std::vector<Weight> out;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    out.push_back({block, name, *published.insert(std::string(prefix) + std::string(name)).first,
                   transforms});
  }
  return out;
}

// Token table, final norm, head; ignores published rotary frequencies, which the config determines.
inline std::vector<Weight> outer_weights() {
  return {{0, LAMINA_NAME_EMBED, "model.embed_tokens.weight"},
          {0, LAMINA_NAME_NORM, "model.norm.weight"},
          {0, LAMINA_NAME_HEAD, "lm_head.weight", {}, LAMINA_HF_TIED},
          ignored("model.layers.{L}.self_attn.rotary_emb.inv_freq")};
}

// The norms before the two sub-layers.
inline std::vector<Weight> norm_weights(std::uint32_t block) {
  return {{block, "attention_norm.weight", "model.layers.{L}.input_layernorm.weight"},
          {block, "ffn_norm.weight", "model.layers.{L}.post_attention_layernorm.weight"}};
}

// Rows for self_attention() in the scope "attention".
inline std::vector<Weight> attention_weights(std::uint32_t block) {
  return {{block, "attention.wq.weight", "model.layers.{L}.self_attn.q_proj.weight"},
          {block, "attention.wq.bias", "model.layers.{L}.self_attn.q_proj.bias"},
          {block, "attention.wk.weight", "model.layers.{L}.self_attn.k_proj.weight"},
          {block, "attention.wk.bias", "model.layers.{L}.self_attn.k_proj.bias"},
          {block, "attention.wv.weight", "model.layers.{L}.self_attn.v_proj.weight"},
          {block, "attention.wv.bias", "model.layers.{L}.self_attn.v_proj.bias"},
          {block, "attention.wo.weight", "model.layers.{L}.self_attn.o_proj.weight"},
          {block, "attention.wo.bias", "model.layers.{L}.self_attn.o_proj.bias"},
          {block, "attention.q_norm.weight", "model.layers.{L}.self_attn.q_norm.weight"},
          {block, "attention.k_norm.weight", "model.layers.{L}.self_attn.k_norm.weight"},
          {block, "attention.sinks", "model.layers.{L}.self_attn.sinks"}};
}

// Rows for gated_mlp() in the scope "feed_forward".
inline std::vector<Weight> mlp_weights(std::uint32_t block) {
  return {{block, "feed_forward.w1.weight", "model.layers.{L}.mlp.gate_proj.weight"},
          {block, "feed_forward.w1.bias", "model.layers.{L}.mlp.gate_proj.bias"},
          {block, "feed_forward.w3.weight", "model.layers.{L}.mlp.up_proj.weight"},
          {block, "feed_forward.w3.bias", "model.layers.{L}.mlp.up_proj.bias"},
          {block, "feed_forward.w2.weight", "model.layers.{L}.mlp.down_proj.weight"},
          {block, "feed_forward.w2.bias", "model.layers.{L}.mlp.down_proj.bias"}};
}

// Rows for mixture() in the scope "moe", with experts published one by one.
inline std::vector<Weight> mixture_weights(std::uint32_t block) {
  return {{block, "moe.router.weight", "model.layers.{L}.mlp.gate.weight"},
          {block, "moe.experts.w1.weight", "model.layers.{L}.mlp.experts.{E}.gate_proj.weight"},
          {block, "moe.experts.w3.weight", "model.layers.{L}.mlp.experts.{E}.up_proj.weight"},
          {block, "moe.experts.w2.weight", "model.layers.{L}.mlp.experts.{E}.down_proj.weight"}};
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
