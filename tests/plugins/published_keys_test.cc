// Every key of the configuration classes of transformers (transformers/README.md): used, declared
// to have no effect, or refused by name. And the types of the values in a fresh model's
// config.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "config/model_keys.h"
#include "config/published_keys.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "plugins/small_config.h"
#include "weights/publish/hf_config.h"

namespace lamina::registry {
namespace {

namespace fs = std::filesystem;
using lamina::testing::configure;
using lamina::testing::small_config;

const JsonDocument& data() {
  static const JsonDocument document =
      JsonDocument::read(LAMINA_SOURCE_DIR "/tests/plugins/transformers/keys.json");
  return document;
}

// The type of the text config inside a model's config.json, if it has one.
std::string text_type(const std::string& model_type) {
  static const std::set<std::string> whole = {"llama4",      "qwen3_vl", "qwen3_vl_moe", "qwen3_5",
                                              "qwen3_5_moe", "gemma3",   "gemma4"};
  return whole.contains(model_type) ? model_type + "_text" : "";
}

// Returns the object with the member `key` replaced, or unchanged if `key` is "".
std::string replaced(const std::string& object, const std::string& key, const std::string& value) {
  const JsonDocument document = JsonDocument::parse(object, "small");
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, old] : document.root().members())
    if (name != key) json.key(name).value(old);
  if (!key.empty()) json.key(key).raw(value);
  return json.end_object().text();
}

// A config.json of the type with one more member at the top.
std::string with_member(const std::string& model_type, const std::string& key = "",
                        const std::string& value = "") {
  std::string whole = small_config(model_type);
  if (model_type == "qwen3_omni_moe")
    whole = R"({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": )" +
            small_config("qwen3_omni_moe_text") + "}}";
  else if (const std::string inner = text_type(model_type); !inner.empty())
    whole =
        R"({"model_type": ")" + model_type + R"(", "text_config": )" + small_config(inner) + "}";
  return replaced(whole, key, value);
}

// Values of the class's type that are not the default, as JSON.
std::vector<std::string> other_values(const std::string& model_type, const JsonValue& row) {
  const std::string_view key = row.at("key").as_string();
  if (key == "rope_parameters") {
    if (model_type == "deepseek_v4")
      return {R"({"main": {"rope_theta": 3.0}, "compress": {"rope_theta": 4.0}})"};
    const bool grouped =
        model_type == "olmo3" || model_type == "gemma3_text" || model_type == "gemma4_text";
    return {grouped ? R"({"full_attention": {"rope_theta": 3.0}})" : R"({"rope_theta": 3.0})"};
  }
  if (key == "rope_scaling") return {R"({"rope_type": "linear", "factor": 2.0})"};
  if (key == "compress_rates") return {R"({"compressed_sparse_attention": 2})"};
  const std::string_view type = row.at("type").as_string();
  const auto has = [&](std::string_view part) { return type.find(part) != type.npos; };
  if (type == "other name") return {"3", "0.5"};
  if (has("bool")) return {"true", "false"};
  if (has("list[str]")) return {R"(["odd", "odd", "odd", "odd"])"};
  if (has("list[int]") && !has("int |")) return {"[0, 0, 0, 0]", "[1]"};
  if (has("dict") || has("Config") || has("RopeParameters")) return {R"({"odd": 3})"};
  if (has("str") || has("Literal")) return {R"("odd")"};
  if (has("float")) return {"0.25"};
  return {"3", "12", "1"};
}

std::string text_of(const config::Table& values) {
  std::string out;
  for (const config::Entry& entry : values.entries())
    out += entry.key + "=" + config::to_toml(entry.value) + "\n";
  return out;
}

// Keys that a family may read although another value changes no result here.
bool is_known(const std::string& model_type, std::string_view key) {
  if (config::has_no_effect(key) || config::find_training_key(key)) return true;
  // Outside a text_config the key describes other parts.
  const std::string whole = with_member(model_type);
  if (key == "initializer_range" && whole.find("text_config") != whole.npos) return true;
  const config::ModelSource source = [&] {
    const lamina::testing::TempDir folder;
    return config::load_model(folder.write("config.json", with_member(model_type)));
  }();
  const auto& keys = load_family(lamina::testing::shipped_plugins(), source).keys();
  return std::ranges::any_of(
      keys, [&](const ModelKey& one) { return one.ignored && one.key.name == key; });
}

// "used", "known", "refused", or the fault.
std::string outcome(const std::string& model_type, const JsonValue& row) {
  const std::string key(row.at("key").as_string());
  static std::map<std::string, std::string> unchanged;
  std::string& before = unchanged[model_type];
  if (before.empty()) before = text_of(configure(with_member(model_type)).values());
  bool used = false;
  std::string refusal;
  for (const std::string& value : other_values(model_type, row)) {
    try {
      const ModelConfig config = configure(with_member(model_type, key, value));
      if (!config.unread().empty()) return "is dropped with " + value;
      used |= text_of(config.values()) != before;
    } catch (const UserError& error) {
      // A size may be refused by another key that it conflicts with.
      if (std::string(error.what()).find(key) != std::string::npos)
        used = true;
      else
        refusal = "is refused with " + value + " without its name: " + error.what();
    }
  }
  if (used) return "used";
  if (!refusal.empty()) return refusal;
  return is_known(model_type, key) ? "known" : "has no effect, and nothing says so";
}

TEST(PublishedKeys, AreUsedOrKnownOrRefusedByName) {
  for (const JsonValue one : data().root().at("classes").elements()) {
    const std::string model_type(one.at("model_type").as_string());
    for (const JsonValue row : one.at("keys").elements()) {
      const std::string_view key = row.at("key").as_string();
      if (key == "text_config" || key == "thinker_config") continue;  // contain the other keys
      const std::string found = outcome(model_type, row);
      EXPECT_TRUE(found == "used" || found == "known") << model_type << ": " << key << " " << found;
    }
  }
}

TEST(PublishedKeys, OfEveryClassAreUsedOrKnownOrRefusedByName) {
  for (const char* model_type : {"llama", "gpt2", "deepseek_v4", "gemma4_text"})
    for (const JsonValue row : data().root().at("base").elements()) {
      const std::string_view key = row.at("key").as_string();
      const std::string found = outcome(model_type, row);
      // GPT-2 has no rotary positions, and transformers ignores their keys for it.
      const bool right = found == "used" || found == "known" ||
                         (std::string_view(model_type) == "gpt2" && key.starts_with("rope_"));
      EXPECT_TRUE(right) << model_type << ": " << key << " " << found;
    }
}

TEST(PublishedKeys, KeysOfTextGenerationAreKnown) {
  for (const JsonValue key : data().root().at("generation").elements())
    EXPECT_TRUE(config::has_no_effect(key.as_string())) << key.as_string();
}

TEST(PublishedKeys, DefaultsOfTransformersAreAccepted) {
  for (const JsonValue one : data().root().at("classes").elements()) {
    const std::string model_type(one.at("model_type").as_string());
    for (const JsonValue row : one.at("keys").elements()) {
      const JsonValue preset = row.at("default");
      static const std::set<std::string_view> sizes = {"head_dim", "num_attention_heads"};
      if (preset.is_null() || sizes.contains(row.at("key").as_string())) continue;
      JsonWriter json;
      json.value(preset);
      const std::string key(row.at("key").as_string());
      try {
        const ModelConfig config = configure(with_member(model_type, key, json.text()));
        EXPECT_TRUE(config.unread().empty()) << model_type << ": " << key;
      } catch (const UserError& error) {
        // A size alone may conflict with the others.
        EXPECT_EQ(preset.kind(), JsonKind::integer) << model_type << ": " << error.what();
      }
    }
  }
}

// ---- exports
// --------------------------------------------------------------------------------------

// Returns true if the JSON value has the annotated type, as transformers checks it.
bool has_type(const JsonValue& value, std::string_view type) {
  const auto has = [&](std::string_view part) { return type.find(part) != type.npos; };
  if (value.is_null()) return has("None") || has("Optional");
  if (value.is_bool()) return has("bool");
  if (value.is_integer()) return has("int");
  if (value.is_number()) return has("float");
  if (value.is_string())
    return has("str") || (has("Literal") && has("'" + std::string(value.as_string()) + "'"));
  if (value.is_object()) return has("dict") || has("RopeParameters");
  return std::ranges::all_of(
      std::vector<JsonValue>(value.elements().begin() != value.elements().end()
                                 ? std::vector<JsonValue>{value.element(0)}
                                 : std::vector<JsonValue>{}),
      [&](const JsonValue& element) {
        return has(element.is_string() ? "list[str]" : element.is_integer() ? "list[int]" : "?");
      });
}

std::optional<JsonValue> row_of(const JsonValue& rows, std::string_view key) {
  for (const JsonValue row : rows.elements())
    if (row.at("key").as_string() == key) return row;
  return {};
}

// The configuration class that reads a fresh export of the family.
std::optional<JsonValue> class_of(const Family& family) {
  if (family.names().hf_model_types.empty()) return {};
  for (const JsonValue one : data().root().at("classes").elements())
    if (one.at("model_type").as_string() == family.names().hf_model_types.front()) return one;
  return {};
}

std::vector<fs::path> small_models() {
  std::vector<fs::path> out;
  for (const auto& plugin : fs::directory_iterator(LAMINA_SOURCE_DIR "/plugins"))
    if (fs::exists(plugin.path() / "check"))
      for (const auto& file : fs::directory_iterator(plugin.path() / "check"))
        if (file.path().extension() == ".toml") out.push_back(file.path());
  std::ranges::sort(out);
  return out;
}

// Keys of publishers' own files, and keys that models read although their class has no such field.
bool is_read_without_a_field(std::string_view key) {
  static const std::set<std::string_view> keys = {
      "attention_bias",       "attn_output_gate", "head_dim",        "intermediate_size",
      "moe_layer_freq",       "norm_topk_prob",   "rope_interleave", "num_nextn_predict_layers",
      "output_router_logits", "scoring_func",     "topk_method",     "router_aux_loss_coef"};
  return keys.contains(key);
}

TEST(ExportedConfig, HasTheTypesOfTransformersClasses) {
  std::set<std::string> families;
  for (const fs::path& model : small_models()) {
    const config::ModelSource source = config::load_model(model);
    const Family& family = load_family(lamina::testing::shipped_plugins(), source);
    const std::optional<JsonValue> published = class_of(family);
    if (!published) continue;
    if (!weights::why_unpublished(family.names()).empty()) continue;
    families.insert(family.name());
    const ModelConfig config = family.configure(source.raw, source.where);
    const JsonDocument json = JsonDocument::parse(
        weights::hf_config(family.names(), config, {.dtype = "float32"}), "config.json");
    SCOPED_TRACE(model.filename().string());
    for (const auto& [key, value] : json.root().members()) {
      if (key == "lamina" || key == "model_type" || key == "torch_dtype") continue;
      std::optional<JsonValue> row = row_of(published->at("keys"), key);
      if (!row) row = row_of(data().root().at("base"), key);
      EXPECT_TRUE(row || is_read_without_a_field(key))
          << key << " is not a key of " << published->at("class").as_string();
      // Older names accept every type.
      if (!row || row->at("type").as_string() == "other name") continue;
      EXPECT_TRUE(has_type(value, row->at("type").as_string()))
          << key << " is " << value.describe() << ", expected " << row->at("type").as_string();
    }
    for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"})
      EXPECT_TRUE(json.root().find(token)) << token;
  }
  EXPECT_GE(families.size(), 20u);
}

}  // namespace
}  // namespace lamina::registry
