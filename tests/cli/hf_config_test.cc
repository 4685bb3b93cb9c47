// The config.json of an exported model.
#include "weights/publish/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "support/expect_error.h"

namespace lamina::cli {
namespace {

using weights::hf_config;

using config::Value;
using registry::ModelKey;

ModelKey key(std::string name, Value preset, std::string hf_name = "") {
  ModelKey out;
  out.key.name = std::move(name);
  out.key.preset = std::move(preset);
  out.hf_name = std::move(hf_name);
  return out;
}

const registry::FamilyNames kNames{"made_up", "", {}, {"made_up_type"}, {"MadeUpForCausalLM"}};

std::string config_of(std::vector<ModelKey> keys, std::vector<Value> values,
                      const registry::FamilyNames& names = kNames) {
  config::Table table;
  for (std::size_t i = 0; i < keys.size(); ++i) table.add({keys[i].key.name, values[i], {}});
  registry::ModelConfig config(std::make_shared<const std::vector<ModelKey>>(keys), table, {},
                               "test");
  return hf_config(names, config, {.dtype = "float32", .bos_token = 1, .eos_token = 2});
}

TEST(HfConfig, Example) {
  EXPECT_EQ(config_of({key("hidden_size", 8, "n_embd")}, {16}),
            "{\n  \"architectures\": [\"MadeUpForCausalLM\"],\n"
            "  \"model_type\": \"made_up_type\",\n  \"torch_dtype\": \"float32\",\n"
            "  \"bos_token_id\": 1,\n  \"eos_token_id\": 2,\n  \"pad_token_id\": null,\n"
            "  \"n_embd\": 16\n}\n");
}

TEST(HfConfig, ObjectOfDefaultsIsLeftOut) {
  const std::string text =
      config_of({key("rope.type", "none"), key("rope.factor", 1.0)}, {"none", 1.0});
  EXPECT_FALSE(JsonDocument::parse(text, "config.json").root().find("rope")) << text;
}

TEST(HfConfig, ObjectIsWholeOnceAKeyDiffers) {
  const std::string text = config_of({key("rope.type", "none"), key("hidden_size", 8),
                                      key("rope.low", 1.0), key("rope.auto", 0.0)},
                                     {"far", 8, 1.0, 0.0});
  const JsonDocument json = JsonDocument::parse(text, "config.json");
  EXPECT_EQ(json.root().at("rope").at("type").as_string(), "far");
  EXPECT_EQ(json.root().at("rope").at("low").as_double(), 1.0);
  EXPECT_FALSE(json.root().at("rope").find("auto")) << "0 leaves the choice to the reader";
}

TEST(HfConfig, ZeroOfAKeyThatReadsNullAsZeroIsNull) {
  ModelKey window = key("sliding_window", 0);
  window.null_is_zero = true;
  const std::string none = config_of({window}, {0}), some = config_of({window}, {128});
  EXPECT_TRUE(JsonDocument::parse(none, "config.json").root().at("sliding_window").is_null());
  EXPECT_EQ(JsonDocument::parse(some, "config.json").root().at("sliding_window").as_int64(), 128);
}

TEST(HfConfig, StringThatMeansNoneIsNull) {
  ModelKey attention = key("use_bidirectional_attention", "none");
  attention.null_is_zero = true;
  attention.key.choices = {"none", "vision"};
  const std::string none = config_of({attention}, {"none"}),
                    some = config_of({attention}, {"vision"});
  const auto value = [](const std::string& text) {
    return JsonDocument::parse(text, "config.json")
        .root()
        .at("use_bidirectional_attention")
        .describe();
  };
  EXPECT_EQ(value(none), "null");
  EXPECT_EQ(value(some), "\"vision\"");
}

TEST(HfConfig, OwnKeysAreInAnObjectUnlessTheyAreAtTheirDefaults) {
  const ModelKey weight = key("balance_weight", 0.0, "lamina.balance_weight");
  EXPECT_FALSE(
      JsonDocument::parse(config_of({weight}, {0.0}), "config.json").root().find("lamina"));
  EXPECT_EQ(JsonDocument::parse(config_of({weight}, {0.5}), "config.json")
                .root()
                .at("lamina")
                .at("balance_weight")
                .as_double(),
            0.5);
}

TEST(HfConfig, TheFamilyIsNamedInTheObject) {
  const auto named = [](const std::string& config) {
    return weights::with_family(JsonDocument::parse(config, "config.json").root(), "mine");
  };
  EXPECT_EQ(
      named(R"({"a": 1e-05, "b": {}})"),
      "{\n  \"a\": 1e-05,\n  \"b\": {},\n  \"lamina\": {\n    \"family\": \"mine\"\n  }\n}\n");
  const std::string again = named(R"({"lamina": {"x": 2, "family": "other"}, "a": 1})");
  EXPECT_EQ(again,
            "{\n  \"a\": 1,\n  \"lamina\": {\n    \"family\": \"mine\",\n    \"x\": 2\n  }\n}\n");
  EXPECT_EQ(named(again), again);
}

TEST(HfConfig, ObjectsOfOneObjectAreWrittenTogether) {
  const JsonDocument json = JsonDocument::parse(
      config_of({key("rope.full.theta", 2.0), key("rope.sliding.theta", 1.0)}, {2.0, 3.0}),
      "config.json");
  EXPECT_EQ(json.root().at("rope").at("full").at("theta").as_double(), 2);
  EXPECT_EQ(json.root().at("rope").at("sliding").at("theta").as_double(), 3);
}

TEST(HfConfig, FamilyWithoutAFormThereIsRefused) {
  EXPECT_USER_ERROR(config_of({}, {}, {"made_up", "", {}, {}, {}}), 4,
                    "export: family 'made_up' has no form at Hugging Face for a model that started "
                    "fresh: its plugin declares no model_type\n"
                    "  use lamina's own format, which `lamina decode -m` reads");
}

TEST(HfConfig, FamilyThatIsPublishedWithEncodersOnlyIsRefused) {
  const std::string whole = "MadeUpForConditionalGeneration", text = "MadeUpForCausalLM";
  EXPECT_ERROR_SAYS(config_of({}, {}, {"made_up", "", {}, {"made_up"}, {whole, text}}), 4,
                    "it is published as MadeUpForConditionalGeneration only, with encoders that a "
                    "fresh model lacks");
  EXPECT_NO_THROW(config_of({}, {}, {"made_up", "", {}, {"made_up"}, {text, whole}}));
}

}  // namespace
}  // namespace lamina::cli
