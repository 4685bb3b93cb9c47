#include "cli/shell/weight_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "config/listing.h"
#include "config/model_keys.h"
#include "core/error.h"
#include "core/log.h"
#include "formats/encode.h"

namespace lamina::cli {
namespace {

constexpr const char *kQuantize = "quantize", *kQuantizeRule = "quantize-rule";

}  // namespace

Option weights_option() {
  return {
      .key =
          {.name = "weights",
           .type = Type::string,
           .preset = Value("model"),
           .choices = {"model", "ema"},
           .doc =
               "Weights of a checkpoint: the trained ones, or their moving average (train.ema)."},
      .value = "WHICH"};
}

Option packed_option() {
  return flag_option("packed",
                     "Keep weights in blocks (GGUF, MXFP4, fp8 and others) in memory, where their "
                     "files have them, instead of converting them to --dtype when the model is "
                     "loaded. Default: in bfloat16, formats whose products are computed from "
                     "blocks; in the layout of compressed-tensors all formats. --no-packed "
                     "converts all. See docs/quantisation.md.",
                     /*negatable=*/true);
}

Option quantize_option() {
  return text_option(
      kQuantize, 0, "FORMAT",
      fmt::format(
          "Round the matrices of products and experts to a format when they are loaded: {}. "
          "Embedding, head, router, norms and biases stay plain; see --quantize-rule and "
          "docs/quantisation.md.",
          quantize_formats()));
}

Option quantize_rule_option() {
  Option out = text_option(
      kQuantizeRule, 0, "PATTERN=FORMAT",
      "Another format, or none, for the parameters of a pattern: a role (head), layers:FIRST-LAST, "
      "group:NAME or a pattern of whole names. The first rule that matches a parameter applies.");
  out.repeatable = true;
  return out;
}

std::string quantize_formats() {
  return fmt::format("{}", fmt::join(formats::quantised_names(), ", "));
}

std::optional<weights::Quantisation> quantisation(const Arguments& a, const std::string& format) {
  if (!a.has(format)) {
    if (!a.texts(kQuantizeRule).empty())
      throw UserError(ExitCode::usage,
                      {fmt::format("--{}", kQuantizeRule), "needs --quantize; add it", {}});
    return {};
  }
  weights::Quantisation out{.format = a.text(format)};
  weights::check_quantise_format(fmt::format("--{}", format), out.format);
  for (const std::string& rule : a.texts(kQuantizeRule))
    out.rules.push_back(weights::parse_quantise_rule(rule));
  return out;
}

std::vector<config::OptionSetting> quantise_settings(const Arguments& a) {
  const std::optional<weights::Quantisation> what = quantisation(a);
  if (!what) return {};
  std::vector<config::OptionSetting> out = {{fmt::format("--{} {}", kQuantize, what->format),
                                             "train.quantize=" + config::toml_quote(what->format)}};
  if (what->rules.empty()) return out;
  std::vector<std::string> typed, rules;
  for (const weights::QuantiseRule& rule : what->rules) {
    typed.push_back(fmt::format("--{} {}", kQuantizeRule, rule.text));
    rules.push_back(config::toml_quote(rule.text));
  }
  out.push_back({fmt::format("{}", fmt::join(typed, " ")),
                 fmt::format("train.quantize_rules=[{}]", fmt::join(rules, ", "))});
  return out;
}

void refuse_quantising(const Arguments& a, const std::string& training) {
  if (!quantisation(a)) return;
  throw UserError(
      ExitCode::usage,
      {fmt::format("--{}", kQuantize),
       fmt::format("cannot be combined with {}: it rounds the weights of a model to decode with",
                   training),
       {"remove it; the key train.quantize rounds the frozen matrices of a run"}});
}

Option kv_dtype_option() {
  return choice_option("kv-dtype", "TYPE", {"int8", "fp8"}, {},
                       "Keep keys and values of earlier tokens in one byte each, with a scale per "
                       "token and head: half the memory of bfloat16. Sets model.kv_dtype.");
}

void note_plain_states(const Arguments& a, const decoder::Model& model, DType dtype) {
  if (!a.has("kv-dtype")) return;
  std::map<std::string_view, int> plain;  // numbers of tensors by kind
  for (const decoder::StateTensor& state : model.states({.dtype = dtype}, {}))
    if (!state.type.storage) ++plain[to_string(state.kind)];
  if (plain.empty()) return;
  std::vector<std::string> parts;
  for (const auto& [kind, count] : plain)
    parts.push_back(fmt::format("{} of kind {}", count, kind));
  log::info("--kv-dtype {}: other decode state keeps its type: {}", a.text("kv-dtype"),
            fmt::join(parts, ", "));
}

config::Overrides overrides_of(const Arguments& a) {
  config::Overrides out{.sets = a.texts("set"), .environment = config::process_environment()};
  if (a.has("kv-dtype"))
    out.options.push_back({fmt::format("--kv-dtype {}", a.text("kv-dtype")),
                           fmt::format("model.{}={}", config::kKvDtype, a.text("kv-dtype"))});
  return out;
}

config::Overrides model_overrides(const Arguments& a) {
  config::Overrides out = overrides_of(a);
  // Keys of other sections have been checked, and have no effect on a model.
  std::erase_if(out.environment, [](const std::string& variable) {
    return !variable.starts_with("LAMINA_MODEL__");
  });
  return out;
}

model::WeightChoice weight_choice(const Arguments& a) {
  return {.adapter = adapter_path(a),
          .average = a.has("weights") && a.text("weights") == "ema",
          .packed = a.has("packed") ? std::optional(a.flag("packed")) : std::nullopt,
          .quantise = quantisation(a),
          .overrides = model_overrides(a)};
}

}  // namespace lamina::cli
