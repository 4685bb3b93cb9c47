#include "io/gguf_rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "io/gguf_names.h"

namespace lamina::io {
namespace {

// Returns the divisors of rotary frequencies for the scaling "llama3"; Dubey et al. 2024.
std::vector<double> banded_divisors(std::size_t count, double theta, double factor, double low,
                                    double high, double original) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(count);
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, exponent);
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    out.push_back(1 / ((1 - smooth) / factor + smooth));
  }
  return out;
}

// Returns the divisors of rotary frequencies in a tensor; none if the file has only its
// description.
std::vector<float> divisors_of(const GgufFile& file, const GgufTensor& tensor) {
  if (tensor.format || tensor.dtype != DType::f32)
    user_error(ExitCode::checkpoint, file.path(), "tensor '{}' must be f32", tensor.name);
  std::vector<float> out(tensor.bytes.size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!std::isfinite(out[i]))
      user_error(ExitCode::checkpoint, file.path(),
                 "tensor '{}' has {} at element {}; expected a finite number", tensor.name, out[i],
                 i);
  return out;
}

// Writes config.json's description of scaled rotary frequencies, derived from `rope_freqs.weight`,
// because files contain only the divisors. The factor is the largest divisor; the bands are the
// ones of published models, where the second kind has zero width.
void write_banded_scaling(JsonWriter& json, const GgufFile& file, const GgufTensor& tensor,
                          const std::vector<float>& divisors, double theta) {
  constexpr double kLow = 1, kOriginal = 8192;
  const auto factor = static_cast<double>(std::ranges::max(divisors));
  std::vector<double> wanted;
  // Returns the index of the first frequency that differs, or their number.
  const auto first_other = [&](double high) {
    wanted = banded_divisors(divisors.size(), theta, factor, kLow, high, kOriginal);
    std::size_t i = 0;
    while (i < divisors.size() &&
           std::abs(static_cast<double>(divisors[i]) - wanted[i]) <= 1e-4 * wanted[i])
      ++i;
    return i;
  };
  double high = 4;
  if (first_other(high) < divisors.size() && first_other(kLow) == divisors.size()) high = kLow;
  if (const std::size_t i = first_other(high); i < divisors.size())
    throw UserError(
        ExitCode::checkpoint,
        {file.path(),
         fmt::format("tensor '{}' divides rotary frequency {} by {}, but published models scaled "
                     "by factor {} divide it by {}",
                     tensor.name, i, divisors[i], factor, wanted[i]),
         {"use the safetensors files of the same model, whose config.json specifies the scaling"}});
  json.begin_object().key("rope_type").value("llama3");
  json.key("factor").value(factor).key("low_freq_factor").value(kLow);
  json.key("high_freq_factor").value(high);
  json.key("original_max_position_embeddings").value(static_cast<std::int64_t>(kOriginal));
  json.end_object();
}

class RopeScalingWriter {
 public:
  explicit RopeScalingWriter(GgufConfigWriter& out)
      : out_(out), file_(out.file()), prefix_(out.prefix()) {}

  void write() {
    if (write_long_scaling()) return;
    const double theta =
        file_.number(fmt::format("{}{}", prefix_, kRopeBase)).value_or(kDefaultRopeBase);
    const GgufValue* kind = out_.find(kRopeScalingType);
    const std::string_view type = kind ? *file_.text(kind->key) : "linear";
    if (type != "none" && type != "linear" && type != "yarn")
      file_.fail(kind->key, fmt::format("is '{}'; expected none, linear or yarn", printable(type)),
                 "use the safetensors files of the same model");
    const GgufValue* factor = type == "none" ? nullptr : rotary_factor();
    const bool is_yarn = type == "yarn";
    const bool scales = is_yarn || (factor && !is_off(*factor) && *file_.number(factor->key) != 1);
    check_other_scaling(is_yarn);
    if (const GgufTensor* divisors = out_.model().find_tensor(kRopeFactorsTensor)) {
      if (scales)
        file_.fail(factor ? factor->key : kind->key,
                   fmt::format("scales positions, and so does the tensor '{}'; they cannot be "
                               "combined",
                               kRopeFactorsTensor));
      const std::vector<float> values = divisors_of(file_, *divisors);
      if (std::ranges::all_of(values, [](float d) { return d == 1; })) return;
      return write_banded_scaling(out_.key_from_tensor("rope_scaling", kRopeFactorsTensor), file_,
                                  *divisors, values, theta);
    }
    if (!scales) return;
    out_.key("rope_scaling", kind ? kind->key : factor->key).begin_object();
    out_.json().key("rope_type").value(type);
    if (factor && !is_off(*factor))
      write_value(out_.scaling_key("factor", factor->key), file_, *factor);
    else
      out_.json().key("factor").value(1.0);
    if (!is_yarn) {
      out_.json().end_object();
      return;
    }
    // config.json has only the product with the factor of this scaling.
    if (const GgufValue* factor_of_values = out_.find(kRopeAttentionFactor);
        factor_of_values && !has_no_effect(file_, prefix_, *factor_of_values))
      fail_scaling(*factor_of_values);
    std::set<std::string_view> written;
    for (const ConfigName& row : kRopeScalingNames)
      if (const GgufValue* value = out_.find(fmt::format("{}{}", kRopeScaling, row.gguf));
          value && written.insert(row.published).second)
        write_value(out_.scaling_key(row.published, value->key), file_, *value);
    // A tenth of the value that config.json contains twice: together they scale cosines and sines
    // by 1.
    const std::string tenth = fmt::format("{}{}{}", prefix_, kRopeScaling, kYarnLogMultiplier);
    if (const auto multiplier = file_.number(tenth))
      for (const char* name : {"mscale", "mscale_all_dim"})
        out_.scaling_key(name, tenth).value(float_of(tenth, *multiplier * 10));
    out_.json().end_object();
  }

 private:
  // Returns the factor of scaled positions; null if the file has none.
  const GgufValue* rotary_factor() const {
    const GgufValue* factor = out_.find(kRopeScalingFactor);
    if (!factor) factor = out_.find(kOldRopeFactor);
    if (factor && *file_.number(factor->key) < 0)
      file_.fail(factor->key, "is negative; it must be positive");
    return factor;
  }

  // Returns the number of a key in f32.
  float float_of(const std::string& key, double number) const {
    const auto out = static_cast<float>(number);
    if (!std::isfinite(out)) file_.fail(key, "is too large for f32");
    return out;
  }

  [[noreturn]] void fail_scaling(const GgufValue& value) const {
    file_.fail(value.key, "is a kind of position scaling that lamina does not support",
               "use the safetensors files of the same model");
  }

  // Refuses scaling keys that have an effect but no name in config.json.
  void check_other_scaling(bool is_yarn_or_long) const {
    for (const GgufValue& value : file_.metadata()) {
      if (!value.key.starts_with(prefix_)) continue;
      const std::string_view own = value.key.substr(prefix_.size());
      if (!own.starts_with(kRopeScaling) || own == kRopeScalingType || own == kRopeScalingFactor ||
          out_.keeps(value.key))
        continue;
      const std::string_view name = own.substr(kRopeScaling.size());
      const bool is_written = name == kYarnLogMultiplier || own == kRopeAttentionFactor ||
                              std::ranges::find(kRopeScalingNames, name, &ConfigName::gguf) !=
                                  std::end(kRopeScalingNames);
      // Without scaling, only a factor for the rotated values has an effect.
      const bool has_effect = is_yarn_or_long ? !is_written : own == kRopeAttentionFactor;
      if (has_effect && !has_no_effect(file_, prefix_, value)) fail_scaling(value);
    }
  }

  // Writes the divisors of LongRoPE. Returns false if the file has none.
  bool write_long_scaling() {
    const GgufTensor* tensors[] = {out_.model().find_tensor(kShortFactorsTensor),
                                   out_.model().find_tensor(kLongFactorsTensor)};
    if (!tensors[0] && !tensors[1]) return false;
    if (!tensors[0] || !tensors[1])
      user_error(ExitCode::checkpoint, file_.path(), "has tensor '{}', but not '{}'",
                 tensors[0] ? kShortFactorsTensor : kLongFactorsTensor,
                 tensors[0] ? kLongFactorsTensor : kShortFactorsTensor);
    check_other_scaling(true);
    out_.key_from_tensor("rope_scaling", kLongFactorsTensor).begin_object();
    out_.json().key("rope_type").value("longrope");
    for (const auto& [name, tensor] :
         {std::pair{"short_factor", tensors[0]}, std::pair{"long_factor", tensors[1]}}) {
      out_.scaling_key(name, fmt::format("tensor '{}'", tensor->name)).begin_array();
      for (const float divisor : divisors_of(file_, *tensor)) out_.json().value(divisor);
      out_.json().end_array();
    }
    const std::string original = fmt::format("{}{}original_context_length", prefix_, kRopeScaling);
    if (!file_.integer(original))
      file_.fail(original,
                 fmt::format("is missing, but the tensor '{}' needs it", kLongFactorsTensor));
    out_.scaling_key("original_max_position_embeddings", original).value(*file_.integer(original));
    // Programs that read such files multiply by 1 if the key is missing.
    const std::string factor = fmt::format("{}{}attn_factor", prefix_, kRopeScaling);
    out_.scaling_key("attention_factor", factor)
        .value(float_of(factor, file_.number(factor).value_or(1)));
    out_.json().end_object();
    return true;
  }

  GgufConfigWriter& out_;
  const GgufFile& file_;
  const std::string& prefix_;
};

}  // namespace

void write_rope_scaling(GgufConfigWriter& out) { RopeScalingWriter(out).write(); }

}  // namespace lamina::io
