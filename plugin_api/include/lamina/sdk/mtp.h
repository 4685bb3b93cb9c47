// Multi-token prediction: layers after the last one, each predicting one token further and trained
// with its own loss. DeepSeek-AI, "DeepSeek-V3", 2024, section 2.2. Every family has it by default:
// a prediction layer is one more layer like the last one of its plan.
//
// Shapes: B batch, T tokens, K residual streams, D model width.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/sdk/host.h"
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
  const bool published = inputs != MtpInputs::maxtext;
  // Families that publish prediction layers have the depth in config.json.
  key(kMtpDepthKey, &MtpConfig::num_nextn_predict_layers,
      {.fallback = 0,
       .min = 0,
       .max = 64,
       .aliases = {"num_mtp_layers"},
       .own = !published,
       .doc = "multi-token prediction: additional prediction layers in training"});
  key("mtp_loss_weight", &MtpConfig::mtp_loss_weight,
      {.fallback = 0.1, .min = 0, .own = true, .doc = "weight of the multi-token prediction loss"});
  key("mtp_normed_hidden", &MtpConfig::mtp_normed_hidden,
      {.fallback = inputs == MtpInputs::published,
       .own = true,
       .doc = "the first prediction layer reads the hidden state after the final norm; not in "
              "MaxText"});
  key("mtp_shifted_positions", &MtpConfig::mtp_shifted_positions,
      {.fallback = published,
       .own = true,
       .doc = "prediction layers see the positions of their input tokens; not in MaxText"});
  key("mtp_own_norm", &MtpConfig::mtp_own_norm,
      {.fallback = published,
       .own = true,
       .doc = "prediction layers have a separate norm before the head; MaxText uses the final "
              "one"});
  key("mtp_chained", &MtpConfig::mtp_chained,
      {.fallback = !published,
       .own = true,
       .doc = "a target counts if it is in the same document as the token before it, as in "
              "MaxText; else if it is in the document of the query token"});
}

// For validate(): checks that a layer can be used for prediction. `own_layer`: the model names a
// layer, which asks Step::predicts before it reads inputs that only the stack has.
inline void check_mtp(const MtpConfig& c, const Plan& plan, const Embed& embed, bool own_layer,
                      const Problems& problem) {
  const std::int64_t depth = c.num_nextn_predict_layers;
  if (depth == 0) return;
  if (plan.empty())
    problem(kMtpDepthKey, "got ", depth,
            "; a prediction layer is a copy of the last layer, and "
            "num_hidden_layers = 0");
  else if (embed.entry != 0 &&
           (embed.carries > 1 || (!own_layer && (embed.streams == 0 || embed.per_layer > 0))))
    problem(kMtpDepthKey, "got ", depth,
            "; layers of this model read inputs or states that exist only for layers of the stack, "
            "so it must be 0");
  else if (!own_layer && plan.back().unit.back().kv_donor)
    problem(kMtpDepthKey, "got ", depth,
            "; the last layer reads another layer's keys and values, so it must be 0");
  else if (!own_layer && plan.back().unit.back().params_of)
    problem(kMtpDepthKey, "got ", depth,
            "; the last layer uses another layer's parameters, so it must be 0");
  else if (embed.streams > 0 && c.mtp_normed_hidden)
    problem("mtp_normed_hidden",
            "got true; prediction layers of this model read residual streams, which have no final "
            "norm; "
            "it must be false");
}

// One prediction layer. carries: the hidden state, [B, T, D] or K streams [B, T, K, D], and the
// embedding of the next token [B, T, D]. layer(x) is one layer of the model; exit(x) reduces
// streams to one state. Owns "enorm", "hnorm", "eh_proj" (for streams "e_proj" and "h_proj"
// instead), the parameters of `layer` and `exit` and, with mtp_own_norm, "head_norm". Streams
// follow DeepSeek-AI's inference code of V4, which adds the same embedding to each.
template <class Layer, class Exit>
Tensors predict_next(const Scope& s, const MtpConfig& c, double norm_eps, const Tensors& carries,
                     Layer layer, Exit exit) {
  Tensor e_BTD = rms_norm(s / "enorm", carries[1], norm_eps);
  Tensor h = rms_norm(s / "hnorm", carries[0], norm_eps);
  const Dims shape = e_BTD.shape();
  const bool streams = h.shape().size() == 4;
  Tensor x;
  if (streams)
    x = reshape(linear(s / "e_proj", e_BTD, shape[2]), {shape[0], shape[1], 1, shape[2]}) +
        linear(s / "h_proj", h, shape[2]);
  else
    x = linear(s / "eh_proj", concat({e_BTD, h}, 2), shape[2]);
  x = layer(x);
  Tensor x_BTD = streams ? exit(x) : x;
  return {x, c.mtp_own_norm ? rms_norm(s / "head_norm", x_BTD, norm_eps) : x_BTD};
}

// `own_layer`: the prediction layer is not the plan's last layer.
inline Mtp mtp_of(const MtpConfig& c, std::uint32_t block, const Plan& plan, const Embed& embed,
                  bool own_layer) {
  return {.block = block,
          .depth = c.num_nextn_predict_layers,
          .overrides = own_layer ? std::vector<Override>{} : plan.back().unit.back().overrides,
          .weight_key = "mtp_loss_weight",
          .normed_hidden = c.mtp_normed_hidden,
          .shifted_positions = c.mtp_shifted_positions,
          .final_norm = !c.mtp_own_norm,
          .chained = c.mtp_chained,
          .carries = embed.streams > 0};
}

// Rows for the tensors of prediction layers, named by `names` and laid out as in DeepSeek's files:
// the tensors of a layer and of the exit block (deduplicated over kinds), and the parameters of
// predict_next(). Files may lack them.
inline std::vector<Weight> prediction_weights(std::uint32_t block, const std::vector<Weight>& rows,
                                              const MtpNames& names,
                                              std::deque<std::string>& texts) {
  std::vector<Weight> out;
  std::string_view layers;  // "model.layers.{L}.", from the first row that has it
  for (const Weight& row : rows)
    if (const std::size_t at = row.hf.find("{L}."); row.block != 0 && at != row.hf.npos) {
      layers = row.hf.substr(0, at + 4);
      break;
    }
  if (layers.empty()) return out;
  const auto add = [&](const Weight& row, std::string_view before, std::string_view name) {
    const std::string hf = std::string(before).append(name);
    const bool known = std::any_of(out.begin(), out.end(), [&](const Weight& other) {
      return other.name == row.name && other.hf == hf;
    });
    if (known) return;
    out.push_back(row);
    out.back().block = block;
    out.back().hf = texts.emplace_back(hf);
    out.back().flags |= LAMINA_HF_OPTIONAL;
    // For files that are read without prediction layers.
    if (hf.find('{') == hf.npos) out.back().flags |= LAMINA_HF_SURPLUS;
  };
  const auto add_own = [&](std::string_view before, const MtpNames& own) {
    std::vector<Transform> shift;
    if (own.norm_offset != 0) shift.push_back(added(own.norm_offset));
    add({.name = "enorm.weight", .transforms = shift}, before, own.embedding_norm);
    add({.name = "hnorm.weight", .transforms = shift}, before, own.hidden_norm);
    add({.name = "eh_proj.weight"}, before, own.projection);
    add({.name = "e_proj.weight"}, before, "e_proj.weight");
    add({.name = "h_proj.weight"}, before, "h_proj.weight");
    add({.name = "head_norm.weight", .transforms = shift}, before, own.head_norm);
  };
  // {P} came with minor 7.
  const bool named = !names.layer.empty() && host_knows_minor(7);
  if (named) add_own(names.own, names);
  for (const Weight& row : rows) {
    if (row.block == 0) continue;
    const bool of_layer = row.hf.find("{L}.") != row.hf.npos;
    if (named && row.hf.starts_with(layers)) add(row, names.layer, row.hf.substr(layers.size()));
    if (named && !of_layer) add(row, names.own, row.hf);
    if (of_layer) add(row, {}, row.hf);
  }
  add_own(layers, {.head_norm = "shared_head.norm.weight"});
  if (named) {
    out.push_back(ignored_beyond(texts.emplace_back(std::string(names.layer).append("*"))));
  } else if (!names.layer.empty()) {
    const std::size_t end = names.layer.find('.') + 1;  // after "mtp."
    out.push_back(ignored(texts.emplace_back(std::string(names.layer.substr(0, end)).append("*"))));
  }
  return out;
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
