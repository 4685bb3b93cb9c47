// Multi-token prediction: layers after the last one, each predicting one token further, trained
// with a loss of their own. DeepSeek-AI, "DeepSeek-V3", 2024, section 2.2. Every family has it
// without a line of its own: a prediction layer is one more layer like the last of its plan.
//
// Shapes: B batch, T tokens, D model width.
#pragma once

#include <deque>
#include <string>

#include "lamina/sdk/layers.h"
#include "lamina/sdk/model.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct MtpConfig {
  std::int64_t num_nextn_predict_layers;  // 0 = none
  double mtp_loss_weight;
  bool mtp_normed_hidden, mtp_shifted_positions, mtp_own_norm, mtp_chained;
};
inline constexpr std::string_view kMtpDepthKey = "num_nextn_predict_layers";

inline void mtp_keys(Schema<MtpConfig>& key, MtpInputs inputs) {
  const bool published = inputs == MtpInputs::published;
  key(kMtpDepthKey, &MtpConfig::num_nextn_predict_layers,
      {.fallback = 0,
       .min = 0,
       .max = 64,
       .doc = "multi-token prediction: additional prediction layers in training"});
  key("mtp_loss_weight", &MtpConfig::mtp_loss_weight,
      {.fallback = 0.1, .min = 0, .doc = "weight of the multi-token prediction loss"});
  key("mtp_normed_hidden", &MtpConfig::mtp_normed_hidden,
      {.fallback = published,
       .doc = "the first prediction layer reads the hidden state after the final norm; not in "
              "MaxText"});
  key("mtp_shifted_positions", &MtpConfig::mtp_shifted_positions,
      {.fallback = published,
       .doc = "prediction layers see the positions of their input tokens; not in MaxText"});
  key("mtp_own_norm", &MtpConfig::mtp_own_norm,
      {.fallback = published,
       .doc = "prediction layers have a norm of their own before the head; MaxText uses the final "
              "one"});
  key("mtp_chained", &MtpConfig::mtp_chained,
      {.fallback = !published,
       .doc = "a target counts if it is in the same document as the token before it, as in "
              "MaxText; else "
              "if it is in the document of the query token"});
}

// For validate(): whether the last layer of the plan can be used once more.
inline void check_mtp(const MtpConfig& c, const Plan& plan, const Embed& embed,
                      const Problems& problem) {
  const std::int64_t depth = c.num_nextn_predict_layers;
  if (depth == 0) return;
  if (plan.empty())
    problem(kMtpDepthKey, "got ", depth,
            "; a prediction layer is a copy of the last layer, and "
            "num_hidden_layers = 0");
  else if (embed.entry != 0)
    problem(kMtpDepthKey, "got ", depth,
            "; layers of this model need more than one state of the "
            "model's width (several residual streams, or inputs of their own), so it must be 0");
  else if (plan.back().unit.back().kv_donor)
    problem(kMtpDepthKey, "got ", depth,
            "; the last layer reads keys and values of another, so it "
            "must be 0");
  else if (plan.back().unit.back().params_of)
    problem(kMtpDepthKey, "got ", depth,
            "; the last layer uses the parameters of another, so it must be 0");
}

// carries: the hidden state and the embedding of the next token, [B, T, D] each; layer(x_BTD) is
// one layer of the model. Owns "enorm", "hnorm", "eh_proj", what `layer` owns and, with
// mtp_own_norm, "head_norm".
template <class Layer>
Tensors predict_next(const Scope& s, const MtpConfig& c, double norm_eps, const Tensors& carries,
                     Layer layer) {
  Tensor e_BTD = rms_norm(s / "enorm", carries[1], norm_eps);
  Tensor h_BTD = rms_norm(s / "hnorm", carries[0], norm_eps);
  Tensor x_BTD = linear(s / "eh_proj", concat({e_BTD, h_BTD}, 2), h_BTD.dim(-1));
  x_BTD = layer(x_BTD);
  return {x_BTD, c.mtp_own_norm ? rms_norm(s / "head_norm", x_BTD, norm_eps) : x_BTD};
}

inline Mtp mtp_of(const MtpConfig& c, std::uint32_t block, const Plan& plan) {
  return {.block = block,
          .depth = c.num_nextn_predict_layers,
          .overrides = plan.back().unit.back().overrides,
          .weight_key = "mtp_loss_weight",
          .normed_hidden = c.mtp_normed_hidden,
          .shifted_positions = c.mtp_shifted_positions,
          .final_norm = !c.mtp_own_norm,
          .chained = c.mtp_chained};
}

// The tensors of prediction layers, laid out as in DeepSeek's files: those of a layer (deduplicated
// over kinds), and what predict_next() owns. Files may lack them.
inline std::vector<Weight> prediction_weights(std::uint32_t block, const std::vector<Weight>& rows,
                                              std::deque<std::string>& texts) {
  std::vector<Weight> out;
  std::string_view layers;  // "model.layers.{L}.", as the first row has it
  for (const Weight& row : rows) {
    const std::size_t layer = row.hf.find("{L}.");
    if (row.block == 0 || layer == row.hf.npos) continue;
    if (layers.empty()) layers = row.hf.substr(0, layer + 4);
    const bool known = std::any_of(out.begin(), out.end(), [&](const Weight& other) {
      return other.name == row.name && other.hf == row.hf;
    });
    if (known) continue;
    out.push_back(row);
    out.back().block = block;
    out.back().flags |= LAMINA_HF_OPTIONAL;
  }
  const std::pair<std::string_view, std::string_view> own[] = {
      {"enorm.weight", "enorm.weight"},
      {"hnorm.weight", "hnorm.weight"},
      {"eh_proj.weight", "eh_proj.weight"},
      {"head_norm.weight", "shared_head.norm.weight"}};
  if (!out.empty())
    for (const auto& [ours, published] : own)
      out.push_back({block,
                     ours,
                     texts.emplace_back(std::string(layers).append(published)),
                     {},
                     LAMINA_HF_OPTIONAL});
  return out;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
