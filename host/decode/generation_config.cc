#include "decode/generation_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "decode/generation_keys.h"

namespace lamina::decode {
namespace {

// Read elsewhere, or without effect on the generated text.
constexpr std::array<std::string_view, 12> kNotOfSampling = {
    "_from_model_config",   "bos_token_id",
    "cache_implementation", "do_sample",
    "eos_token_id",         "output_attentions",
    "output_hidden_states", "output_scores",
    "pad_token_id",         "return_dict_in_generate",
    "transformers_version", "use_cache"};

std::int32_t id_of(const JsonValue& value) {
  const std::int64_t id = value.as_int64();
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  if (id < 0 || id > kLast)
    value.fail(fmt::format("must be a token id from 0 to {}, got {}", kLast, id));
  return static_cast<std::int32_t>(id);
}

// Reads a value into its field.
struct Read {
  const GenerationKey& key;
  JsonValue value;

  void check(double number) const {
    if (number >= key.min.value_or(number) && number <= key.max.value_or(number)) return;
    value.fail(fmt::format("must be {}{}{}, got {}",
                           key.min ? fmt::format("at least {}", *key.min) : "",
                           key.min && key.max ? " and " : "",
                           key.max ? fmt::format("at most {}", *key.max) : "", value.describe()));
  }
  void operator()(double* out) const {
    *out = value.as_double();
    if (!std::isfinite(*out)) value.fail("must be a finite number, got " + value.describe());
    if (!fits_float32(*out))
      value.fail("must be within the range of float32, got " + value.describe());
    check(*out);
  }
  void operator()(std::int64_t* out) const { check(static_cast<double>(*out = value.as_int64())); }
  void operator()(std::uint64_t* out) const { *out = value.as_uint64(); }
  void operator()(bool* out) const { *out = value.as_bool(); }
  void operator()(EarlyStopping* out) const {
    if (value.is_bool())
      *out = value.as_bool() ? EarlyStopping::yes : EarlyStopping::no;
    else if (value.is_string() && value.as_string() == name(EarlyStopping::never))
      *out = EarlyStopping::never;
    else
      value.fail("must be true, false or \"never\", got " + value.describe());
  }
  void operator()(Ids* out) const {
    const bool may_be_one = std::string_view(key.config_key).starts_with("forced_");
    *out = may_be_one && !value.is_array() ? Ids{id_of(value)} : ids(value);
  }
  void operator()(Words* out) const {
    out->clear();
    for (const JsonValue word : value.elements()) {
      out->push_back(ids(word));
      if (out->back().empty()) word.fail("must have at least one token id");
    }
  }
  // [[[15], -2.5], ...]: runs of tokens and the value added to the logit of the last one. The last
  // value of a run counts.
  void operator()(Biases* out) const {
    out->clear();
    for (const JsonValue bias : value.elements()) {
      const Ids run = ids(bias.element(0));
      if (run.size() != 1)
        bias.fail(fmt::format("is for a run of {} tokens; only single tokens can have a bias",
                              run.size()));
      const double added = bias.element(1).as_double();
      if (!(added <= kMaxBias))  // also NaN
        bias.element(1).fail(fmt::format("must be a number up to {:.2g}, got {}", kMaxBias,
                                         bias.element(1).describe()));
      std::erase_if(*out, [&](const auto& earlier) { return earlier.first == run.front(); });
      out->emplace_back(run.front(), added);
    }
  }
  void operator()(Texts* out) const {
    out->clear();
    if (value.is_string())
      out->emplace_back(value.as_string());
    else
      for (const JsonValue text : value.elements()) out->emplace_back(text.as_string());
    if (std::ranges::find(*out, "") != out->end()) value.fail("must not contain an empty text");
  }

 private:
  static Ids ids(const JsonValue& list) {
    Ids out;
    for (const JsonValue id : list.elements()) out.push_back(id_of(id));
    return out;
  }
};

}  // namespace

GenerationConfig apply_generation_config(const JsonValue& config, GenerateOptions& options) {
  GenerationConfig out;
  if (!config) return out;
  for (const auto& [name, value] : config.members()) {
    if (value.is_null() || name.empty()) continue;  // options without a key have the name ""
    const auto key = std::ranges::find(generation_keys(), name, &GenerationKey::config_key);
    if (key != generation_keys().end()) {
      std::visit(Read{*key, value}, key->place(options));
      out.used.emplace_back(name);
    } else if (std::ranges::find(kNotOfSampling, name) == kNotOfSampling.end()) {
      out.unused.emplace_back(name);
    }
  }
  // generate() applies cutoffs below 1 only.
  for (double* cutoff : {&options.sampler.epsilon_cutoff, &options.sampler.eta_cutoff})
    if (*cutoff == 1) *cutoff = 0;
  constexpr const char* kTemperature = "temperature";
  if (const JsonValue sample = config.find("do_sample"); sample && !sample.is_null()) {
    const bool has_temperature = std::ranges::find(out.used, kTemperature) != out.used.end();
    if (!sample.as_bool())
      options.sampler.temperature = 0;
    else if (!has_temperature)
      options.sampler.temperature = 1;
    if (!has_temperature) out.used.emplace_back(kTemperature);
  }
  return out;
}

}  // namespace lamina::decode
