// Multi-token prediction for any family: its keys, the block that looks one token further with a
// layer of the family's own, and the tensors that checkpoints have of it. DeepSeek-AI,
// "DeepSeek-V3", 2024, section 2.2.
//
//   struct Config : StandardConfig, MtpConfig { ... };
//   void keys(Schema<Config>& key) { ...; mtp_keys(key); }
//   {.id = kMtp, .name = "prediction", .build_all = predict_next<Config, layer>}  // of blocks()
//   Mtp mtp(const Config& c) { return mtp_of(c, kMtp); }
//   ... + prediction_weights(kMtp)                                                // of weights()
//
// Shapes: B batch, T tokens, D model width.
#pragma once

#include "lamina/sdk/model.h"
#include "lamina/sdk/standard_weights.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct MtpConfig {
  std::int64_t num_nextn_predict_layers;  // 0 = none
  double mtp_loss_weight;
  bool mtp_normed_hidden, mtp_shifted_positions, mtp_own_norm, mtp_chained;
};

// What is predicted from what: as in DeepSeek's checkpoints, or as MaxText trains it.
enum class MtpInputs { published, maxtext };

template <class Config>
void mtp_keys(Schema<Config>& key, MtpInputs inputs = MtpInputs::published) {
  const bool published = inputs == MtpInputs::published;
  key("num_nextn_predict_layers", &Config::num_nextn_predict_layers,
      {.fallback = 0, .min = 0, .doc = "layers that predict further tokens, in training"});
  key("mtp_loss_weight", &Config::mtp_loss_weight,
      {.fallback = 0.1, .min = 0, .doc = "weight of their loss"});
  key("mtp_normed_hidden", &Config::mtp_normed_hidden,
      {.fallback = published,
       .doc = "the first is given the state after the final norm; not in MaxText"});
  key("mtp_shifted_positions", &Config::mtp_shifted_positions,
      {.fallback = published, .doc = "positions are of the tokens they are given; not in MaxText"});
  key("mtp_own_norm", &Config::mtp_own_norm,
      {.fallback = published,
       .doc = "a norm of its own before the head; the final one in MaxText"});
  key("mtp_chained", &Config::mtp_chained,
      {.fallback = !published,
       .doc = "a token ahead counts if the one before it is of its document, as in MaxText; else "
              "if the token that looks ahead is"});
}

// carries: the hidden state and the embedding of the next token, [B, T, D] each. Owns "enorm",
// "hnorm", "eh_proj", what `layer` owns and, with mtp_own_norm, "head_norm".
template <class Config, Tensor (*layer)(Scope, const Config&, Tensor, const Step&)>
Tensors predict_next(Scope s, const Config& c, const Tensors& carries, const Step& step) {
  Tensor e_BTD = rms_norm(s / "enorm", carries[1], c.rms_norm_eps);
  Tensor h_BTD = rms_norm(s / "hnorm", carries[0], c.rms_norm_eps);
  Tensor x_BTD = linear(s / "eh_proj", concat({e_BTD, h_BTD}, 2), c.hidden_size);
  x_BTD = layer(s, c, x_BTD, step);
  return {x_BTD, c.mtp_own_norm ? rms_norm(s / "head_norm", x_BTD, c.rms_norm_eps) : x_BTD};
}

inline Mtp mtp_of(const MtpConfig& c, std::uint32_t block) {
  return {.block = block,
          .depth = c.num_nextn_predict_layers,
          .weight_key = "mtp_loss_weight",
          .normed_hidden = c.mtp_normed_hidden,
          .shifted_positions = c.mtp_shifted_positions,
          .final_norm = !c.mtp_own_norm,
          .chained = c.mtp_chained};
}

// What predict_next() owns itself. Files may lack it; families whose files hold such layers, and
// copies of the embedding and the head in them, where the config has none add ignored_beyond().
inline std::vector<Weight> prediction_weights(std::uint32_t block) {
  const std::uint32_t may_lack = LAMINA_HF_OPTIONAL;
  return {{block, "enorm.weight", "model.layers.{L}.enorm.weight", {}, may_lack},
          {block, "hnorm.weight", "model.layers.{L}.hnorm.weight", {}, may_lack},
          {block, "eh_proj.weight", "model.layers.{L}.eh_proj.weight", {}, may_lack},
          {block, "head_norm.weight", "model.layers.{L}.shared_head.norm.weight", {}, may_lack}};
}
// The rows of a layer again, for the same layer in predict_next().
inline std::vector<Weight> predicting(std::uint32_t block, const std::vector<Weight>& rows) {
  std::vector<Weight> out;
  for (const Weight& row : rows) {
    if (row.block == 0) continue;
    out.push_back(row);
    out.back().block = block;
    out.back().flags |= LAMINA_HF_OPTIONAL;
  }
  return out;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
