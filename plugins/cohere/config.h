// The [model] keys of the Cohere families, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace cohere {

struct Config : lamina::sdk::StandardConfig {
  double layer_norm_eps;
  double logit_scale;
  bool use_qk_norm;                           // LayerNorm of the heads of queries and keys
  std::int64_t sliding_window;                // tokens; 0 = all
  std::int64_t sliding_window_pattern;        // one layer in this many attends to all tokens
  std::vector<std::string_view> layer_types;  // empty = by the pattern
  bool is_gguf;

  // Rotates neighbouring dims.
  lamina::sdk::RopeOptions rotary() const {
    lamina::sdk::RopeOptions out = rope_options();
    out.interleaved = true;
    return out;
  }
};

void cohere_keys(lamina::sdk::Schema<Config>& key);
void cohere_derive(const Config& c, const lamina::sdk::Derived& derived);
void cohere2_keys(lamina::sdk::Schema<Config>& key);
void cohere2_validate(const Config& c, const lamina::sdk::Problems& problem);

// The kind of each layer of Cohere2.
std::vector<std::string_view> types_of(const Config& c);

inline constexpr std::uint32_t kRotating = 1, kGlobal = 2;
std::vector<lamina::sdk::Weight> weights();

}  // namespace cohere
