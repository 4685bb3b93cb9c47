// The defaults of a Model, derived from the keys of a config.
//
//   derive    head_dim is hidden_size / num_attention_heads, after the model's own derive()
//   validate  check_standard(), before the model's own validate()
//   init_std  initializer_range, or 0.02
//   plan      all layers are the first block
//   head      an RMS norm with rms_norm_eps, tied if tie_word_embeddings
#pragma once

#include <type_traits>

#include "lamina/sdk/model.h"
#include "lamina/sdk/standard_keys.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// An RMS norm, and a head that is tied if tie_word_embeddings.
template <class Config>
Head standard_head(const Config& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps}, .tied = c.tie_word_embeddings};
}

// True if the checks and derived values of standard_keys() are the model's too.
template <class Config>
bool has_standard_heads(const Model<Config>& model, const Schema<Config>& keys) {
  return std::is_base_of_v<StandardConfig, Config> && !model.own_checks &&
         keys.declares(keys.names()("head_dim")) &&
         keys.declares(keys.names()("num_attention_heads"));
}

template <class Config>
void derive_of(const Model<Config>& model, const Schema<Config>& keys, const Config& c,
               const Derived& derived) {
  if (model.derive) model.derive(c, derived);
  if constexpr (std::is_base_of_v<StandardConfig, Config>)
    if (has_standard_heads(model, keys)) derive_head_dim(c, derived);
}

template <class Config>
void validate_of(const Model<Config>& model, const Schema<Config>& keys, const Config& c,
                 const Problems& problem) {
  if constexpr (std::is_base_of_v<StandardConfig, Config>)
    if (has_standard_heads(model, keys)) {
      StandardConfig checked = c;
      if (!keys.declares(keys.names()("num_key_value_heads")))
        checked.num_key_value_heads = c.num_attention_heads;
      if (keys.declares(keys.names()("rope_theta")))
        check_standard(checked, problem);
      else
        check_heads(checked, problem);
    }
  if (model.validate) model.validate(c, problem);
}

template <class Config>
double init_std_of(const Model<Config>& model, const Config& c) {
  if (model.init_std) return model.init_std(c);
  if constexpr (requires { c.initializer_range; })
    return c.initializer_range;
  else
    return 0.02;
}

template <class Config>
Plan plan_of(const Model<Config>& model, const Config& c) {
  if (model.plan) return model.plan(c);
  return repeat(unit(model.blocks().front().id)).over(c.num_hidden_layers);
}

template <class Config>
Head head_of(const Model<Config>& model, const Config& c) {
  if (model.head) return model.head(c);
  if constexpr (requires { c.rms_norm_eps, c.tie_word_embeddings; })
    return standard_head(c);
  else
    return {};
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
