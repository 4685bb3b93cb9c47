// Keys of a family in the forms that published config.json files have: words for "not given", lists
// of objects, numbers of layers that follow from a list.
#include <gtest/gtest.h>

#include "config/raw.h"
#include "lamina/sdk.h"
#include "registry/family.h"
#include "support/expect_error.h"
#include "weights/publish/hf_config.h"

namespace lamina::decoder {
namespace {

namespace sdk = lamina::sdk;

struct FormsConfig : sdk::StandardConfig {
  std::int64_t width;
  std::vector<std::int64_t> widths, skipped;
  std::vector<std::string_view> kinds;
};

constexpr sdk::Model<FormsConfig> kForms = {
    .family = {.name = "forms", .hf_model_types = {"forms"}, .hf_architectures = {"FormsLM"}},
    .keys =
        [](sdk::Schema<FormsConfig>& key) {
          sdk::standard_keys(key, {.layers_are_derived = true});
          key.rename("rms_norm_eps", "norm_eps");
          key.alias("tie_word_embeddings", "tie_embedding");
          key.drop("attention_bias");
          key("width", &FormsConfig::width,
              {.min = 1, .choices = {"auto"}, .doc = "tokens; default hidden_size / 2"});
          key("widths", &FormsConfig::widths,
              {.min = 0,
               .aliases = {"blocks[].ffn.width"},
               .hf_name = "blocks[].ffn.width",
               .doc = "width of each layer"});
          key("skipped", &FormsConfig::skipped,
              {.aliases = {"blocks[].skip"}, .hf_name = "blocks[].skip", .doc = "1 = skipped"});
          key("kinds", &FormsConfig::kinds, {.fallback = {"a"}, .doc = "kind of each layer"});
        },
    .derive =
        [](const FormsConfig& c, const sdk::Derived& derived) {
          derived.set("num_hidden_layers", static_cast<std::int64_t>(c.kinds.size()));
          derived.set("width", c.hidden_size / 2);
        },
    .validate =
        [](const FormsConfig& c, const sdk::Problems& problem) {
          if (c.width == 7) problem("width", "got 7; another would be right");
        },
    .blocks =
        [] {
          return std::vector<sdk::Block<FormsConfig>>{
              {1, "block",
               [](sdk::Scope, const FormsConfig&, sdk::Tensor x, const sdk::Step&) { return x; }}};
        },
};

// Names of another kind for the keys that the SDK's defaults read.
constexpr sdk::Model<FormsConfig> kRenamed = {
    .family = {.name = "renamed", .hf_model_types = {"renamed"}, .hf_architectures = {"OtherLM"}},
    .keys =
        [](sdk::Schema<FormsConfig>& key) {
          sdk::standard_keys(key, {.rope = {.partial_rotary_factor = 1}});
          key.rename("num_attention_heads", "n_heads");
          key.rename("num_key_value_heads", "num_kv_heads");
          key.rename("head_dim", "head_width");
          key.rename("rope_theta", "rotary_base");
          key.rename("partial_rotary_factor", "rotary_pct");
        },
    .blocks = kForms.blocks,
};

const registry::Family& forms() {
  static const sdk::FamilyTables<FormsConfig> tables(kForms);
  static const registry::Family family(tables.family(),
                                       std::make_shared<registry::PluginIdentity>());
  return family;
}

registry::ModelConfig configured(const std::string& more, const std::string& run = "") {
  const std::string text = R"({"vocab_size": 11, "hidden_size": 8, "intermediate_size": 8,
      "num_attention_heads": 2, "kinds": ["a", "b", "a"])";
  config::Raw raw = config::parse_json(text + more + "}", "config.json", "model.");
  raw.append(config::parse_toml(run, "run.toml", config::Origin::Kind::run_file));
  return forms().configure(raw, "config.json");
}

registry::ModelConfig renamed(const std::string& more) {
  static const sdk::FamilyTables<FormsConfig> tables(kRenamed);
  static const registry::Family family(tables.family(),
                                       std::make_shared<registry::PluginIdentity>());
  return family.configure(
      config::parse_json(R"({"vocab_size": 11, "hidden_size": 8, "intermediate_size": 8,
                             "num_hidden_layers": 1)" +
                             more + "}",
                         "config.json", "model."),
      "config.json");
}

TEST(KeyForms, AWordForANumberLeavesItToDerive) {
  EXPECT_EQ(configured(R"(, "width": 3)").values().integer("width"), 3);
  EXPECT_EQ(configured(R"(, "width": "auto")").describe("width"), "width = 4 (derived)");
  EXPECT_EQ(configured(R"(, "width": 3)", "[model]\nwidth = \"auto\"\n").values().integer("width"),
            4);
  EXPECT_EQ(configured(R"(, "width": "auto")", "[model]\nwidth = 5\n").values().integer("width"),
            5);
  EXPECT_ERROR_SAYS(configured(R"(, "width": "wide")"), ExitCode::usage,
                    "'width' must be an integer, at least 1, or \"auto\", got \"wide\" (a string)");
}

TEST(KeyForms, AListOfObjectsIsAListForEachMember) {
  const std::string blocks = R"(, "blocks": [{"ffn": {"width": 5}, "skip": true},
                                             {"skip": false}, {"ffn": {"width": null}}])";
  const registry::ModelConfig config = configured(blocks);
  EXPECT_EQ(config.values().list("widths"), (config::List{5, 0, 0}));
  EXPECT_EQ(config.values().list("skipped"), (config::List{1, 0, 0}));
  EXPECT_TRUE(config.unread().empty());
  EXPECT_ERROR_SAYS(configured(R"(, "blocks": [{"ffn": {"width": -1}}])"), ExitCode::usage,
                    "'blocks[].ffn.width[0]' must be an integer, at least 0, got -1");
}

TEST(KeyForms, AListOfObjectsIsExportedAsOne) {
  const std::string text = weights::hf_config(
      {.name = "forms", .hf_model_types = {"forms"}, .hf_architectures = {"FormsLM"}},
      configured(R"(, "blocks": [{"ffn": {"width": 5}}, {"ffn": {"width": 6}}])"),
      {.dtype = "float32"});
  EXPECT_NE(text.find(R"("blocks": [
    {
      "ffn": {
        "width": 5
      }
    },)"),
            std::string::npos)
      << text;
}

TEST(KeyForms, OtherNamesAndDerivedLayersAreRead) {
  const registry::ModelConfig config = configured(R"(, "norm_eps": 0.5, "tie_embedding": true)");
  EXPECT_EQ(config.values().number("norm_eps"), 0.5);
  EXPECT_TRUE(config.values().boolean("tie_word_embeddings"));
  EXPECT_EQ(config.describe("num_hidden_layers"), "num_hidden_layers = 3 (derived)");
  EXPECT_EQ(config.describe("head_dim"), "head_dim = 4 (derived)");  // beside the family's derive
  EXPECT_EQ(configured(R"(, "rms_norm_eps": 0.5)").unread(),
            std::vector<std::string>{"rms_norm_eps (config.json:2)"});
}

TEST(KeyForms, AFamilysChecksAreAdditions) {
  EXPECT_ERROR_SAYS(configured(R"(, "width": 7, "num_key_value_heads": 3)"), ExitCode::usage,
                    "'num_key_value_heads': got 3; it must divide num_attention_heads = 2");
  EXPECT_ERROR_SAYS(configured(R"(, "width": 7, "num_key_value_heads": 3)"), ExitCode::usage,
                    "'width': got 7; another would be right");
}

TEST(KeyForms, DefaultsAndChecksUseRenamedKeys) {
  const registry::ModelConfig config = renamed(R"(, "n_heads": 2, "rotary_base": 500.0)");
  EXPECT_EQ(config.describe("head_width"), "head_width = 4 (derived)");
  EXPECT_EQ(config.values().integer("num_kv_heads"), 2);
  EXPECT_ERROR_SAYS(renamed(R"(, "n_heads": 4, "num_kv_heads": 3)"), ExitCode::usage,
                    "'num_kv_heads': got 3; it must divide n_heads = 4");
  EXPECT_ERROR_SAYS(renamed(R"(, "n_heads": 3)"), ExitCode::usage,
                    "'head_width': expected a value, because n_heads = 3 does not divide "
                    "hidden_size = 8; change one of them or give head_width");
  EXPECT_ERROR_SAYS(renamed(R"(, "n_heads": 8)"), ExitCode::usage,
                    "'head_width': got 1 with hidden_size = 8 and n_heads = 8; rotary positions "
                    "need an even head_width");
  EXPECT_ERROR_SAYS(renamed(R"(, "n_heads": 2, "rotary_pct": 0.3)"), ExitCode::usage,
                    "'rotary_pct': rotates 1 of head_width = 4 dims");
}

}  // namespace
}  // namespace lamina::decoder
