#include "io/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "io/gguf_names.h"

namespace lamina::io {
namespace {

using Type = GgufValue::Type;

constexpr std::string_view kArchitecture = "general.architecture";
constexpr std::string_view kTokenTable = "token_embd.weight", kHead = "output.weight";
constexpr std::string_view kRopeScaling = "rope.scaling.";
// Keys of an architecture that repeat information of tensors or other keys.
constexpr std::string_view kSaidOtherwise[] = {"vocab_size", "attention.value_length",
                                               "rope.dimension_count"};
// Present with latent attention.
constexpr std::string_view kLatentRank = "attention.kv_lora_rank";
constexpr std::string_view kSaidByLatentAttention[] = {
    "attention.key_length", "attention.key_length_mla", "attention.value_length_mla",
    "attention.head_count_kv"};

bool is_zero(const GgufValue& value) {
  return !value.is_array && value.type != Type::string && value.number(0) == 0;
}

// Returns whether every element is 0, false or empty: the feature is off.
bool is_off(const GgufValue& value) {
  for (std::size_t i = 0; i < value.size(); ++i)
    if (value.type == Type::string ? !value.strings[i].empty() : value.number(i) != 0) return false;
  return true;
}

// Returns whether the value has no effect on the model, by the tables of gguf_names.h.
bool has_no_effect(const GgufFile& file, std::string_view prefix, const GgufValue& value) {
  const std::string_view own = value.key.substr(prefix.size());
  const auto is_in = [&](const auto& keys) {
    return std::ranges::find(keys, own) != std::end(keys);
  };
  if ((is_off(value) && !is_in(kOnAtZero)) || is_in(kKeysWithoutEffect)) return true;
  if (value.is_array || value.type == Type::string) return false;
  for (const NeutralValue& row : kNeutralValues)
    if (row.key == own && value.number(0) == row.value) return true;
  for (const ConfigName& row : kSameValues) {
    if (row.gguf != own) continue;
    const GgufValue* other = file.find(fmt::format("{}{}", prefix, row.published));
    if (other && !other->is_array && other->type != Type::string &&
        other->number(0) == value.number(0))
      return true;
  }
  return false;
}

void write(JsonWriter& json, const GgufValue& value, std::size_t i) {
  if (value.type == Type::string)
    json.value(value.strings[i]);
  else if (value.type == Type::boolean)
    json.value(value.number(i) != 0);
  else if (value.type == Type::f32)
    json.value(static_cast<float>(value.number(i)));  // 1e-06, not the double next to it
  else if (const auto whole = value.integer(i))
    json.value(*whole);
  else
    json.value(value.number(i));
}

void write(JsonWriter& json, const GgufValue& value) {
  if (!value.is_array) return write(json, value, 0);
  json.begin_array();
  for (std::size_t i = 0; i < value.size(); ++i) write(json, value, i);
  json.end_array();
}

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

using KeepsName = std::function<bool(std::string_view key)>;

class ConfigWriter {
 public:
  ConfigWriter(const GgufModel& model, const KeepsName& keeps_name)
      : model_(model),
        file_(model.first()),
        prefix_(gguf_architecture(model) + "."),
        keeps_name_(keeps_name) {}

  // Returns 0 if unknown.
  std::int64_t head_width() const {
    if (const auto width = integer("attention.key_length")) return *width;
    const GgufValue* heads = find("attention.head_count");
    const std::int64_t count =
        heads && !heads->is_array ? file_.integer(heads->key).value_or(0) : 0;
    return count > 0 ? integer("embedding_length").value_or(0) / count : 0;
  }

  GgufConfig write_all(const std::string& model_type, const std::string& marker) {
    json_.begin_object();
    key("model_type", kArchitecture).value(model_type);
    if (!marker.empty()) json_.key(marker).value(true);
    write_keys();
    write_from_tensors();
    if (is_latent())
      write_latent_attention();
    else
      write_head_widths();
    write_rotary_scaling();
    return {json_.end_object().text(), std::move(places_)};
  }

 private:
  // Begins a member of config.json that is derived from a key of the file.
  JsonWriter& key(std::string_view name, std::string_view from) {
    places_.emplace(name, printable(from));
    return json_.key(name);
  }
  JsonWriter& key_from_tensor(std::string_view name, std::string_view tensor) {
    return key(name, fmt::format("tensor '{}'", tensor));
  }
  // Begins a member of the object "rope_scaling".
  JsonWriter& scaling_key(std::string_view name, std::string_view from) {
    places_.emplace(fmt::format("rope_scaling.{}", name), printable(from));
    return json_.key(name);
  }

  // Returns null if the family keeps the key's name, which then has another meaning.
  const GgufValue* find(std::string_view key) const {
    const std::string whole = fmt::format("{}{}", prefix_, key);
    return keeps(whole) ? nullptr : file_.find(whole);
  }
  bool keeps(std::string_view key) const { return keeps_name_ && keeps_name_(key); }
  std::optional<std::int64_t> integer(std::string_view key) const {
    const GgufValue* value = find(key);
    return value ? file_.integer(value->key) : std::nullopt;
  }

  // Writes every key of the architecture, under its name in config.json if it has one.
  void write_keys() {
    std::set<std::string> written;
    for (const GgufValue& value : file_.metadata()) {
      if (!value.key.starts_with(prefix_)) continue;
      const std::string_view own = value.key.substr(prefix_.size());
      if (keeps(value.key)) {
        lamina::io::write(key(value.key, value.key), value);
        continue;
      }
      if (own.starts_with(kRopeScaling) || own == kOldRopeFactor ||
          std::ranges::find(kSaidOtherwise, own) != std::end(kSaidOtherwise))
        continue;
      if (is_latent() &&
          std::ranges::find(kSaidByLatentAttention, own) != std::end(kSaidByLatentAttention))
        continue;
      if (own.starts_with("expert_") && is_zero(value)) continue;  // a model without experts
      if (own == kWindowPattern || own == kScoring) {
        write_in_words(value, own);
        continue;
      }
      const auto* row = std::ranges::find(kConfigNames, own, &ConfigName::gguf);
      const std::string name(row == std::end(kConfigNames) ? value.key : row->published);
      if (!written.insert(name).second) file_.fail(value.key, "appears twice, under two names");
      lamina::io::write(key(name, value.key), value);
    }
  }

  // Writes values that config.json represents as words.
  void write_in_words(const GgufValue& value, std::string_view own) {
    if (own == kScoring) {
      const std::int64_t kind = *file_.integer(value.key);
      if (kind < 1 || kind >= std::ssize(kScoringFunctions))
        file_.fail(value.key, fmt::format("is {}; expected 1 (softmax) or 2 (sigmoid)", kind));
      key(kScoringName, value.key).value(kScoringFunctions[kind]);
      return;
    }
    if (!value.is_array) return lamina::io::write(key(kWindowPeriodName, value.key), value);
    key(kLayerTypesName, value.key).begin_array();
    for (std::int64_t windowed : file_.integers(value.key))
      json_.value(windowed != 0 ? kWindowedLayer : kFullLayer);
    json_.end_array();
  }

  void write_from_tensors() {
    const GgufTensor* table = model_.find_tensor(kTokenTable);
    if (!table || table->shape.ndim() != 2)
      throw UserError(
          ExitCode::checkpoint,
          {file_.path(),
           table ? fmt::format("tensor '{}' is {}; expected a matrix", kTokenTable,
                               to_string(table->shape))
                 : fmt::format("has no tensor '{}', so it contains no model", kTokenTable),
           {"`lamina tokenize` reads files with only a vocabulary"}});
    key_from_tensor("vocab_size", kTokenTable).value(table->shape[0]);
    key_from_tensor("tie_word_embeddings", kHead).value(!model_.find_tensor(kHead));
  }

  bool is_latent() const { return find(kLatentRank); }

  // The file has the widths of the latent state and, in newer files, of a head.
  void write_latent_attention() {
    std::string from;  // the key of the last width
    const auto width = [&](std::string_view name) {
      for (const char* kind : {"_mla", ""}) {
        from = fmt::format("{}{}{}", prefix_, name, kind);
        const auto value = file_.integer(from);
        if (value && !std::in_range<std::int32_t>(*value))
          file_.fail(from, fmt::format("is {}; expected a width", *value));
        if (value) return *value;
      }
      file_.fail(fmt::format("{}{}", prefix_, name),
                 fmt::format("is missing, but latent attention ('{}{}') requires "
                             "it",
                             prefix_, kLatentRank),
                 "convert the model again");
    };
    const std::int64_t rotated = width("rope.dimension_count");
    key("qk_rope_head_dim", from).value(rotated);
    const std::int64_t plain = width("attention.key_length") - rotated;
    key("qk_nope_head_dim", from).value(plain);
    const std::int64_t values = width("attention.value_length");
    key("v_head_dim", from).value(values);
    for (const char* name : {"q_lora_rank", "n_group", "topk_group"}) {
      const auto* row = std::ranges::find(kConfigNames, name, &ConfigName::published);
      if (!find(row->gguf)) json_.key(name).null();
    }
  }

  void write_head_widths() {
    const std::int64_t head = head_width();
    if (const auto value = integer("attention.value_length"); value && head > 0 && *value != head)
      file_.fail(
          prefix_ + "attention.value_length",
          fmt::format("is {}, but keys are {} wide; lamina requires equal widths", *value, head));
    if (const auto rotated = integer("rope.dimension_count");
        rotated && head > 0 && *rotated != head)
      key("partial_rotary_factor", prefix_ + "rope.dimension_count")
          .value(static_cast<double>(*rotated) / static_cast<double>(head));
  }

  // Returns the factor of scaled positions; null if the file has none.
  const GgufValue* rotary_factor() const {
    const GgufValue* factor = find(kRopeScalingFactor);
    if (!factor) factor = find(kOldRopeFactor);
    if (factor && *file_.number(factor->key) < 0)
      file_.fail(factor->key, "is negative; it must be positive");
    return factor;
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
          keeps(value.key))
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
    const GgufTensor* tensors[] = {model_.find_tensor(kShortFactorsTensor),
                                   model_.find_tensor(kLongFactorsTensor)};
    if (!tensors[0] && !tensors[1]) return false;
    if (!tensors[0] || !tensors[1])
      user_error(ExitCode::checkpoint, file_.path(), "has tensor '{}', but not '{}'",
                 tensors[0] ? kShortFactorsTensor : kLongFactorsTensor,
                 tensors[0] ? kLongFactorsTensor : kShortFactorsTensor);
    check_other_scaling(true);
    key_from_tensor("rope_scaling", kLongFactorsTensor).begin_object();
    json_.key("rope_type").value("longrope");
    for (const auto& [name, tensor] :
         {std::pair{"short_factor", tensors[0]}, std::pair{"long_factor", tensors[1]}}) {
      scaling_key(name, fmt::format("tensor '{}'", tensor->name)).begin_array();
      for (const float divisor : divisors_of(file_, *tensor)) json_.value(divisor);
      json_.end_array();
    }
    const std::string original = fmt::format("{}{}original_context_length", prefix_, kRopeScaling);
    if (!file_.integer(original))
      file_.fail(original,
                 fmt::format("is missing, but the tensor '{}' needs it", kLongFactorsTensor));
    scaling_key("original_max_position_embeddings", original).value(*file_.integer(original));
    // Programs that read such files multiply by 1 if the key is missing.
    const std::string factor = fmt::format("{}{}attn_factor", prefix_, kRopeScaling);
    scaling_key("attention_factor", factor)
        .value(static_cast<float>(file_.number(factor).value_or(1)));
    json_.end_object();
    return true;
  }

  void write_rotary_scaling() {
    if (write_long_scaling()) return;
    const double theta = file_.number(prefix_ + "rope.freq_base").value_or(10000);
    const GgufValue* kind = find(kRopeScalingType);
    const std::string_view type = kind ? *file_.text(kind->key) : "linear";
    if (type != "none" && type != "linear" && type != "yarn")
      file_.fail(kind->key, fmt::format("is '{}'; expected none, linear or yarn", printable(type)),
                 "use the safetensors files of the same model");
    const GgufValue* factor = type == "none" ? nullptr : rotary_factor();
    const bool is_yarn = type == "yarn";
    const bool scales = is_yarn || (factor && !is_off(*factor) && *file_.number(factor->key) != 1);
    check_other_scaling(is_yarn);
    if (const GgufTensor* divisors = model_.find_tensor(kRopeFactorsTensor)) {
      if (scales)
        file_.fail(factor ? factor->key : kind->key,
                   fmt::format("scales positions, and so does the tensor '{}'; they cannot be "
                               "combined",
                               kRopeFactorsTensor));
      const std::vector<float> values = divisors_of(file_, *divisors);
      if (std::ranges::all_of(values, [](float d) { return d == 1; })) return;
      return write_banded_scaling(key_from_tensor("rope_scaling", kRopeFactorsTensor), file_,
                                  *divisors, values, theta);
    }
    if (!scales) return;
    key("rope_scaling", kind ? kind->key : factor->key).begin_object();
    json_.key("rope_type").value(type);
    if (factor && !is_off(*factor))
      lamina::io::write(scaling_key("factor", factor->key), *factor);
    else
      json_.key("factor").value(1.0);
    if (!is_yarn) {
      json_.end_object();
      return;
    }
    // config.json has only the product with the factor of this scaling.
    if (const GgufValue* factor_of_values = find(kRopeAttentionFactor);
        factor_of_values && !has_no_effect(file_, prefix_, *factor_of_values))
      fail_scaling(*factor_of_values);
    std::set<std::string_view> written;
    for (const ConfigName& row : kRopeScalingNames)
      if (const GgufValue* value = find(fmt::format("{}{}", kRopeScaling, row.gguf));
          value && written.insert(row.published).second)
        lamina::io::write(scaling_key(row.published, value->key), *value);
    // A tenth of the value that config.json contains twice: together they scale cosines and sines
    // by 1.
    const std::string tenth = fmt::format("{}{}{}", prefix_, kRopeScaling, kYarnLogMultiplier);
    if (const auto multiplier = file_.number(tenth))
      for (const char* name : {"mscale", "mscale_all_dim"})
        scaling_key(name, tenth).value(static_cast<float>(*multiplier * 10));
    json_.end_object();
  }

  const GgufModel& model_;
  const GgufFile& file_;
  std::string prefix_;
  const KeepsName& keeps_name_;
  JsonWriter json_{2};
  std::map<std::string, std::string, std::less<>> places_;
};

}  // namespace

std::string GgufConfig::place_of(std::string_view key) const {
  auto at = places.find(key);
  if (at == places.end()) at = places.find(key.substr(0, key.find('.')));
  return at == places.end() ? "metadata" : at->second;
}

std::string gguf_architecture(const GgufModel& model) {
  const GgufFile& file = model.first();
  const auto name = file.text(kArchitecture);
  if (!name || name->empty())
    throw UserError(ExitCode::checkpoint, {file.path(),
                                           fmt::format("has no '{}'", kArchitecture),
                                           {"convert the model again with a current converter"}});
  return std::string(*name);
}

GgufConfig gguf_config(const GgufModel& model, const std::string& model_type,
                       const std::string& marker, const KeepsName& keeps_name) {
  return ConfigWriter(model, keeps_name).write_all(model_type, marker);
}

void refuse_unknown_keys(const GgufModel& model, const std::string& family,
                         const std::function<bool(std::string_view key)>& keeps_name,
                         const std::vector<std::string>& unread) {
  const GgufFile& file = model.first();
  const std::string prefix = gguf_architecture(model) + ".";
  const auto top_of = [](std::string_view name) { return name.substr(0, name.find('.')); };
  const auto is_unread = [&](std::string_view published) {
    return std::ranges::any_of(unread, [&](const std::string& name) {
      return published == name || top_of(published) == name || published == top_of(name);
    });
  };
  for (const GgufValue& value : file.metadata()) {
    if (!value.key.starts_with(prefix) || keeps_name(value.key)) continue;
    const std::string_view own = value.key.substr(prefix.size());
    bool has_name =
        own.starts_with(kRopeScaling) || own == kOldRopeFactor ||
        std::ranges::find(kSaidOtherwise, own) != std::end(kSaidOtherwise) ||
        (file.find(prefix + std::string(kLatentRank)) &&
         std::ranges::find(kSaidByLatentAttention, own) != std::end(kSaidByLatentAttention));
    bool is_read = true;
    for (const auto& rows :
         {std::span<const ConfigName>(kConfigNames), std::span<const ConfigName>(kWrittenNames)})
      for (const ConfigName& row : rows)
        if (row.gguf == own) {
          has_name = true;
          is_read = is_read && !is_unread(row.published);
        }
    if ((!has_name || !is_read) && !has_no_effect(file, prefix, value))
      file.fail(value.key,
                fmt::format("is unknown for family '{}', so the model could compute something else",
                            family),
                "use the safetensors files of the same model");
  }
}

std::int64_t gguf_head_width(const GgufModel& model) {
  const std::int64_t width = ConfigWriter(model, {}).head_width();
  if (width <= 0 || width % 2 != 0)
    model.first().fail("attention.head_count",
                       fmt::format("gives heads of width {}; expected an even width", width));
  return width;
}

std::vector<std::int64_t> gguf_end_tokens(const GgufModel& model) {
  const GgufFile& file = model.first();
  std::vector<std::int64_t> out;
  for (const char* key : {"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"})
    if (const auto id = file.integer(fmt::format("tokenizer.ggml.{}_token_id", key));
        id && *id >= 0 && std::in_range<std::int32_t>(*id) &&
        std::ranges::find(out, *id) == out.end())
      out.push_back(*id);
  return out;
}

}  // namespace lamina::io
