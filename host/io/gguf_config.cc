#include "io/gguf_config.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "io/gguf_config_writer.h"
#include "io/gguf_names.h"
#include "io/gguf_rope_scaling.h"

namespace lamina::io {
namespace {

using Type = GgufValue::Type;

constexpr std::string_view kArchitecture = "general.architecture";
constexpr std::string_view kHeadCount = "attention.head_count", kKeyLength = "attention.key_length";
constexpr std::string_view kExperts = "expert_count", kExpertsPerToken = "expert_used_count";
constexpr std::string_view kTokenTable = "token_embd.weight", kHead = "output.weight";
// Keys of an architecture that repeat information of tensors or other keys.
constexpr std::string_view kSaidOtherwise[] = {"vocab_size", "attention.value_length",
                                               "rope.dimension_count"};
// Files have no keys for biases, only the tensors.
constexpr struct {
  std::string_view published, tensors[2];
} kBiasKeys[] = {{"attention_bias", {"blk.0.attn_q.bias", "blk.0.attn_output.bias"}},
                 {"mlp_bias", {"blk.0.ffn_up.bias", "blk.0.ffn_down.bias"}}};
// Present with latent attention.
constexpr std::string_view kLatentRank = "attention.kv_lora_rank";
constexpr std::string_view kSaidByLatentAttention[] = {
    "attention.key_length", "attention.key_length_mla", "attention.value_length_mla",
    "attention.head_count_kv"};

bool is_zero(const GgufValue& value) {
  return !value.is_array && value.type != Type::string && value.number(0) == 0;
}

class ConfigWriter : GgufConfigWriter {
 public:
  using GgufConfigWriter::GgufConfigWriter;

  // Returns 0 if unknown.
  std::int64_t head_width() const {
    if (const auto width = integer(kKeyLength)) return *width;
    const std::int64_t count = head_count();
    return count > 0 ? integer("embedding_length").value_or(0) / count : 0;
  }

  GgufConfig write_all(const std::string& model_type, const std::string& marker) {
    json().begin_object();
    key("model_type", kArchitecture).value(model_type);
    if (!marker.empty()) json().key(marker).value(true);
    write_keys();
    write_defaults();
    write_from_tensors();
    require_keys();
    if (is_latent())
      write_latent_attention();
    else
      write_head_widths();
    write_rope_scaling(*this);
    return {json().end_object().text(), std::move(places())};
  }

 private:
  // Writes every key of the architecture, under its name in config.json if it has one.
  void write_keys() {
    std::set<std::string> written;
    for (const GgufValue& value : file().metadata()) {
      if (!value.key.starts_with(prefix())) continue;
      const std::string_view own = value.key.substr(prefix().size());
      if (keeps(value.key)) {
        write_value(key(value.key, value.key), file(), value);
        continue;
      }
      if (own.starts_with(kRopeScaling) || own == kOldRopeFactor ||
          std::ranges::find(kSaidOtherwise, own) != std::end(kSaidOtherwise))
        continue;
      if (is_latent() &&
          std::ranges::find(kSaidByLatentAttention, own) != std::end(kSaidByLatentAttention))
        continue;
      // A model without experts, or a feature of them that is off.
      if (own.starts_with("expert_") && is_zero(value) &&
          !(own == kExpertsPerToken && has_experts()))
        continue;
      if (own == kWindowPattern || own == kScoring) {
        write_in_words(value, own);
        continue;
      }
      const auto* row = std::ranges::find(kConfigNames, own, &ConfigName::gguf);
      const std::string name(row == std::end(kConfigNames) ? value.key : row->published);
      if (!written.insert(name).second) file().fail(value.key, "appears twice, under two names");
      write_value(key(name, value.key), file(), value);
    }
  }

  bool has_experts() const {
    return file().integer(fmt::format("{}{}", prefix(), kExperts)).value_or(0) > 0;
  }

  // Refuses a file without a key that has no default. A family's defaults are for config.json.
  void require_keys() {
    const auto require = [&](std::string_view own, const std::string& why = {}) {
      if (const std::string name = fmt::format("{}{}", prefix(), own); !file().find(name))
        file().fail(name, "is missing" + why, "convert the model again with a current converter");
    };
    for (const char* own : {"block_count", "embedding_length", "context_length"}) require(own);
    for (const ConfigName& row : kRequiredKeys)
      if (keeps(row.published)) require(row.gguf);
    for (const std::string_view own : kRequiredIfNamed)
      if (keeps(fmt::format("{}{}", prefix(), own))) require(own);
    if (has_experts())
      require(kExpertsPerToken, fmt::format(", but '{}{}' is above 0", prefix(), kExperts));
  }

  // Returns 0 if unknown, or if layers differ.
  std::int64_t head_count() const {
    const GgufValue* heads = find(kHeadCount);
    return heads && !heads->is_array ? file().integer(heads->key).value_or(0) : 0;
  }

  // Writes what a missing key means in GGUF files, because families have other defaults.
  void write_defaults() {
    const auto lacks = [&](std::string_view own, std::string_view published) {
      return !file().find(fmt::format("{}{}", prefix(), own)) && keeps(published);
    };
    if (lacks(kRopeBase, "rope_theta"))
      key("rope_theta", fmt::format("{}{}", prefix(), kRopeBase)).value(kDefaultRopeBase);
    if (is_latent() || head_count() == 0) return;
    const std::string from = fmt::format("{}{}", prefix(), kHeadCount);
    if (lacks("attention.head_count_kv", "num_key_value_heads"))
      key("num_key_value_heads", from).value(head_count());
    if (const std::int64_t width = head_width(); lacks(kKeyLength, "head_dim") && width > 0)
      key("head_dim", from).value(width);
  }

  // Writes values that config.json represents as words.
  void write_in_words(const GgufValue& value, std::string_view own) {
    if (own == kScoring) {
      const std::int64_t kind = *file().integer(value.key);
      if (kind < 1 || kind >= std::ssize(kScoringFunctions))
        file().fail(value.key, fmt::format("is {}; expected 1 (softmax) or 2 (sigmoid)", kind));
      key(kScoringName, value.key).value(kScoringFunctions[kind]);
      return;
    }
    if (!value.is_array) return write_value(key(kWindowPeriodName, value.key), file(), value);
    key(kLayerTypesName, value.key).begin_array();
    for (std::int64_t windowed : file().integers(value.key))
      json().value(windowed != 0 ? kWindowedLayer : kFullLayer);
    json().end_array();
  }

  void write_from_tensors() {
    const GgufTensor* table = model().find_tensor(kTokenTable);
    if (!table || table->shape.ndim() != 2)
      throw UserError(
          ExitCode::checkpoint,
          {file().path(),
           table ? fmt::format("tensor '{}' is {}; expected a matrix", kTokenTable,
                               to_string(table->shape))
                 : fmt::format("has no tensor '{}', so it contains no model", kTokenTable),
           {"`lamina tokenize` reads files with only a vocabulary"}});
    key_from_tensor("vocab_size", kTokenTable).value(table->shape[0]);
    key_from_tensor("tie_word_embeddings", kHead).value(!model().find_tensor(kHead));
    write_biases();
  }

  // One key of config.json is for all projections of attention, and one for the feed-forward.
  void write_biases() {
    for (const auto& [name, tensors] : kBiasKeys)
      if (keeps(name) && std::ranges::all_of(tensors, [&](std::string_view tensor) {
            return model().find_tensor(tensor) != nullptr;
          }))
        key_from_tensor(name, tensors[1]).value(true);
  }

  bool is_latent() const { return find(kLatentRank); }

  // The file has the widths of the latent state and, in newer files, of a head.
  void write_latent_attention() {
    std::string from;  // the key of the last width
    const auto width = [&](std::string_view name) {
      for (const char* kind : {"_mla", ""}) {
        from = fmt::format("{}{}{}", prefix(), name, kind);
        const auto value = file().integer(from);
        if (value && !std::in_range<std::int32_t>(*value))
          file().fail(from, fmt::format("is {}; expected a width", *value));
        if (value) return *value;
      }
      file().fail(fmt::format("{}{}", prefix(), name),
                  fmt::format("is missing, but latent attention ('{}{}') requires "
                              "it",
                              prefix(), kLatentRank),
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
      if (!find(row->gguf)) json().key(name).null();
    }
  }

  void write_head_widths() {
    const std::int64_t head = head_width();
    if (const auto value = integer("attention.value_length"); value && head > 0 && *value != head)
      file().fail(
          prefix() + "attention.value_length",
          fmt::format("is {}, but keys are {} wide; lamina requires equal widths", *value, head));
    if (const auto rotated = integer("rope.dimension_count");
        rotated && head > 0 && *rotated != head)
      key("partial_rotary_factor", prefix() + "rope.dimension_count")
          .value(static_cast<double>(*rotated) / static_cast<double>(head));
  }
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
                       const std::string& marker, const GgufConfigWriter::KeepsName& keeps_name) {
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

}  // namespace lamina::io
