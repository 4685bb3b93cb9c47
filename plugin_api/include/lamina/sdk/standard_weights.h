// Rows of the tensor map for tensors that most families publish under the same names. The scopes in
// the block must be "attention_norm", "attention", "ffn_norm", "feed_forward", "moe".
//
//   std::vector<Weight> weights() {
//     return weight_rows({outer_weights(), norm_weights(kBlock), attention_weights(kBlock),
//                         mlp_weights(kBlock), {kBlock, "gate.weight", "..."}});
//   }
#pragma once

#include <algorithm>
#include <initializer_list>
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

// Several rows, or one.
struct WeightRows {
  std::vector<Weight> rows;
  WeightRows(std::vector<Weight> several) : rows(std::move(several)) {}
  WeightRows(const Weight& one) : rows{one} {}
  WeightRows(std::uint32_t block, std::string_view name, std::string_view hf,
             const std::vector<Transform>& transforms = {}, std::uint32_t flags = 0)
      : rows{{block, name, hf, transforms, flags}} {}
};

// Joins lists of rows and single rows, in order.
inline std::vector<Weight> weight_rows(std::initializer_list<WeightRows> parts) {
  std::vector<Weight> out;
  for (const WeightRows& part : parts) out.insert(out.end(), part.rows.begin(), part.rows.end());
  return out;
}

namespace detail {
// Returns the joined text, which lives as long as the plugin: rows borrow their names.
inline std::string_view kept(std::string_view prefix, std::string_view name,
                             std::string_view end = {}) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  std::string text(prefix);
  text += name;
  text += end;
  const std::lock_guard lock(mutex);
  return *texts.insert(std::move(text)).first;
}

// A row for the weight and one for the bias.
inline std::vector<Weight> with_bias(std::uint32_t block, std::string_view ours,
                                     std::string_view prefix, std::string_view name) {
  return {{block, kept(ours, ".weight"), kept(prefix, name, ".weight")},
          {block, kept(ours, ".bias"), kept(prefix, name, ".bias")}};
}
}  // namespace detail

// Parameters whose published names are `prefix`, eg: "model.layers.{L}.", followed by ours.
// `names`: constants, separated by spaces. Names of parameters have at most 64 characters: a longer
// published one needs another of ours, and a separate row.
inline std::vector<Weight> same_names(std::uint32_t block, std::string_view prefix,
                                      std::string_view names,
                                      const std::vector<Transform>& transforms = {}) {
  std::vector<Weight> out;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    out.push_back({block, name, detail::kept(prefix, name), transforms});
  }
  return out;
}

// The functions below take the prefix of published names, and names after it where families differ.

struct OuterNames {
  std::string_view embed = "embed_tokens.weight", norm = "norm.weight", head = "lm_head.weight";
};
// Token table, final norm, head; ignores published rotary frequencies, which the config determines.
// The head's name has no prefix.
inline std::vector<Weight> outer_weights(std::string_view prefix = "model.",
                                         const OuterNames& names = {}) {
  return {{0, LAMINA_NAME_EMBED, detail::kept(prefix, names.embed)},
          {0, LAMINA_NAME_NORM, detail::kept(prefix, names.norm)},
          {0, LAMINA_NAME_HEAD, names.head, {}, LAMINA_HF_TIED},
          ignored(detail::kept(prefix, "rotary_emb.inv_freq")),
          ignored(detail::kept(prefix, "layers.{L}.self_attn.rotary_emb.inv_freq"))};
}

struct NormNames {
  std::string_view attention = "input_layernorm", ffn = "post_attention_layernorm";
};
// The norms before the two sub-layers.
inline std::vector<Weight> norm_weights(std::uint32_t block,
                                        std::string_view prefix = "model.layers.{L}.",
                                        const NormNames& names = {}) {
  return {{block, "attention_norm.weight", detail::kept(prefix, names.attention, ".weight")},
          {block, "ffn_norm.weight", detail::kept(prefix, names.ffn, ".weight")}};
}

struct AttentionNames {
  std::string_view q = "q_proj", k = "k_proj", v = "v_proj", out = "o_proj";
  std::string_view q_norm = "q_norm", k_norm = "k_norm", sinks = "sinks";
};
// Rows for self_attention() in the scope "attention".
inline std::vector<Weight> attention_weights(
    std::uint32_t block, std::string_view prefix = "model.layers.{L}.self_attn.",
    const AttentionNames& names = {}) {
  return detail::with_bias(block, "attention.wq", prefix, names.q) +
         detail::with_bias(block, "attention.wk", prefix, names.k) +
         detail::with_bias(block, "attention.wv", prefix, names.v) +
         detail::with_bias(block, "attention.wo", prefix, names.out) +
         weight_rows(
             {{block, "attention.q_norm.weight", detail::kept(prefix, names.q_norm, ".weight")},
              {block, "attention.k_norm.weight", detail::kept(prefix, names.k_norm, ".weight")},
              {block, "attention.sinks", detail::kept(prefix, names.sinks)}});
}

struct MlpNames {
  std::string_view w1 = "gate_proj", w3 = "up_proj", w2 = "down_proj";
};
// Rows for gated_mlp() in the scope "feed_forward".
inline std::vector<Weight> mlp_weights(std::uint32_t block,
                                       std::string_view prefix = "model.layers.{L}.mlp.",
                                       const MlpNames& names = {}) {
  return detail::with_bias(block, "feed_forward.w1", prefix, names.w1) +
         detail::with_bias(block, "feed_forward.w3", prefix, names.w3) +
         detail::with_bias(block, "feed_forward.w2", prefix, names.w2);
}

// Rows for mixture() in the scope "moe", with experts published one by one.
inline std::vector<Weight> mixture_weights(std::uint32_t block,
                                           std::string_view prefix = "model.layers.{L}.mlp.",
                                           const MlpNames& names = {}) {
  const std::string_view expert = detail::kept(prefix, "experts.{E}.");
  return {{block, "moe.router.weight", detail::kept(prefix, "gate.weight")},
          {block, "moe.experts.w1.weight", detail::kept(expert, names.w1, ".weight")},
          {block, "moe.experts.w3.weight", detail::kept(expert, names.w3, ".weight")},
          {block, "moe.experts.w2.weight", detail::kept(expert, names.w2, ".weight")}};
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
