// Llama 4: the [model] keys, for the equations in llama4.cc, and the family as a constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace llama {

struct Llama4Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  bool is_gguf;                              // the weights are from a GGUF file
  std::optional<std::int64_t> gguf_window;   // of such a file
  std::int64_t intermediate_size_mlp;        // F of layers without experts
  std::int64_t interleave_moe_layer_step;    // one in this many layers has experts
  std::int64_t no_rope_layer_interval;       // one in this many layers has no positions
  std::vector<std::int64_t> no_rope_layers;  // 1 = with rotary positions; empty = by the interval
  std::optional<std::vector<std::int64_t>> moe_layers;  // layers with experts; absent = by the step
  std::vector<std::string_view> layer_types;            // empty, or consistent with the positions
  std::int64_t attention_chunk_size;                    // tokens, for layers with positions
  bool use_qk_norm;
  bool attn_temperature_tuning;
  std::int64_t floor_scale;  // tokens
  double attn_scale;
};

void llama4_keys(lamina::sdk::Schema<Llama4Config>& key);
void derive_llama4(const Llama4Config& c, const lamina::sdk::Derived& derived);
void validate_llama4(const Llama4Config& c, const lamina::sdk::Problems& problem);
// True if layer i has no positions and attends to all tokens.
bool is_global(const Llama4Config& c, std::int64_t i);
bool has_experts(const Llama4Config& c, std::int64_t i);

// Blocks by attention and feed-forward.
inline constexpr std::uint32_t kChunkedDense = 1, kChunkedMoe = 2, kGlobalDense = 3, kGlobalMoe = 4;
std::vector<lamina::sdk::Weight> llama4_weights();

// llama4.cc
std::vector<lamina::sdk::Block<Llama4Config>> llama4_blocks();
lamina::sdk::Plan llama4_plan(const Llama4Config& c);

inline constexpr lamina::sdk::Model<Llama4Config> kLlama4 = {
    .family = {.name = "llama4",
               .hf_model_types = {"llama4_text", "llama4"},
               .hf_architectures = {"Llama4ForCausalLM", "Llama4ForConditionalGeneration"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Llama 4 Scout and Maverick, the text decoder"},
    .keys = llama4_keys,
    .derive = derive_llama4,
    .validate = validate_llama4,
    .blocks = llama4_blocks,
    .plan = llama4_plan,
    .weights = llama4_weights,
};

}  // namespace llama
