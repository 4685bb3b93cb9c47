// Meaning of config.json files with a key in two places, or with layers of several kinds. The
// expected values come from the configuration classes of transformers 5.24.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "plugins/small_config.h"
#include "support/expect_error.h"
#include "weights/publish/hf_config.h"

namespace lamina::registry {
namespace {

using lamina::testing::configure;
using lamina::testing::small_config;

config::Table values_of(const std::string& model_type, const std::string& more) {
  return configure(small_config(model_type, more)).values();
}

std::string refusal(const std::string& model_type, const std::string& more) {
  try {
    configure(small_config(model_type, more));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RopeLayouts, RopeParametersCountBesideAThetaAtTheTop) {
  for (const char* type :
       {"llama", "mistral", "mixtral", "olmo2", "qwen2", "qwen3", "qwen3_moe", "qwen3_next",
        "gemma", "gemma2", "gpt_oss", "deepseek_v2", "deepseek_v3", "llama4_text"}) {
    const config::Table values = values_of(type, R"(, "rope_theta": 10000.0, "rope_scaling": null,
        "rope_parameters": {"rope_type": "default", "rope_theta": 70.0})");
    EXPECT_EQ(values.number("rope_theta"), 70) << type;
  }
}

TEST(RopeLayouts, ThetaAtTheTopCountsWhereTheObjectLacksIt) {
  const config::Table values = values_of("llama", R"(, "rope_theta": 50.0,
      "rope_parameters": {"rope_type": "linear", "factor": 2.0})");
  EXPECT_EQ(values.number("rope_theta"), 50);
  EXPECT_EQ(values.number("rope_scaling.factor"), 2);
}

TEST(RopeLayouts, RopeScalingReplacesRopeParameters) {
  const config::Table values = values_of("llama", R"(, "rope_theta": 50.0,
      "rope_scaling": {"rope_type": "linear", "factor": 2.0},
      "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 70.0,
                          "beta_fast": 16.0})");
  EXPECT_EQ(values.number("rope_theta"), 50);
  EXPECT_EQ(values.string("rope_scaling.rope_type"), "linear");
  EXPECT_EQ(values.number("rope_scaling.factor"), 2);
  EXPECT_EQ(values.number("rope_scaling.beta_fast"), 32);
}

TEST(RopeLayouts, EmptyRopeScalingDoesNot) {
  EXPECT_EQ(values_of("llama", R"(, "rope_scaling": {},
      "rope_parameters": {"rope_type": "default", "rope_theta": 70.0})")
                .number("rope_theta"),
            70);
}

TEST(RopeLayouts, RopeScalingMayHoldTheta) {
  EXPECT_EQ(values_of("llama", R"(, "rope_theta": 50.0,
      "rope_scaling": {"rope_type": "default", "rope_theta": 30.0})")
                .number("rope_theta"),
            30);
}

TEST(RopeLayouts, RopeTypeCountsBesideType) {
  for (const char* object : {"rope_parameters", "rope_scaling"})
    for (const char* members :
         {R"("rope_type": "linear", "type": "yarn")", R"("type": "yarn", "rope_type": "linear")"})
      EXPECT_EQ(values_of("llama", fmt::format(R"(, "{}": {{{}, "factor": 2.0}})", object, members))
                    .string("rope_scaling.rope_type"),
                "linear");
}

TEST(RopeLayouts, KeysOfAnotherKindAreListedAndHaveTheirDefaults) {
  const ModelConfig config = configure(small_config("llama", R"(, "rope_scaling":
      {"rope_type": "linear", "factor": 2.0, "beta_fast": 16.0, "high_freq_factor": 4.0})"));
  EXPECT_EQ(config.values().number("rope_scaling.factor"), 2);
  EXPECT_EQ(config.values().number("rope_scaling.beta_fast"), 32);
  EXPECT_TRUE(config.unread().empty());
  ASSERT_EQ(config.idle().size(), 1u);
  EXPECT_TRUE(config.idle()[0].starts_with("rope_scaling.beta_fast (")) << config.idle()[0];
  EXPECT_TRUE(config.idle()[0].ends_with("; rope_scaling.rope_type = \"linear\" does not use it)"))
      << config.idle()[0];
  const ModelConfig yarn = configure(small_config("llama", R"(, "rope_scaling":
      {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16.0, "mscale": 0.5})"));
  EXPECT_EQ(yarn.values().number("rope_scaling.beta_fast"), 16);
  ASSERT_EQ(yarn.idle().size(), 1u);
  EXPECT_TRUE(yarn.idle()[0].starts_with("rope_scaling.mscale (")) << yarn.idle()[0];
}

TEST(RopeLayouts, EachKindOfLayersHasItsScaling) {
  const std::string full = R"(, "rope_parameters": {"full_attention":
      {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16.0, "attention_factor": 1.5},
      "sliding_attention": )";
  const config::Table own =
      values_of("olmo3", full + R"({"rope_type": "yarn", "factor": 2.0, "beta_slow": 3.0}})");
  EXPECT_EQ(own.number("rope_scaling.factor"), 8);
  EXPECT_EQ(own.number("sliding_rope_scaling.factor"), 2);
  EXPECT_EQ(own.number("sliding_rope_scaling.beta_fast"), 32);
  EXPECT_EQ(own.number("sliding_rope_scaling.beta_slow"), 3);
  EXPECT_FALSE(own.has("sliding_rope_scaling.attention_factor"));
  EXPECT_EQ(own.integer("sliding_rope_scaling.original_max_position_embeddings"), 2048);
  EXPECT_FALSE(
      values_of("olmo3", full + R"({"rope_type": "default"}})").has("sliding_rope_scaling.factor"));
  EXPECT_NE(refusal("olmo3", full + R"({"rope_type": "yarn"}})")
                .find("'rope_parameters.sliding_attention.factor' is missing"),
            std::string::npos);
  const ModelConfig idle = configure(small_config("olmo3", R"(, "rope_parameters":
      {"full_attention": {"rope_type": "default", "rope_theta": 50.0, "factor": 2.0},
       "sliding_attention": {"rope_type": "linear", "factor": 4.0, "beta_fast": 16.0}})"));
  EXPECT_EQ(idle.values().number("rope_scaling.factor"), 1);
  EXPECT_EQ(idle.values().number("sliding_rope_scaling.factor"), 4);
  EXPECT_EQ(idle.idle().size(), 2u);
}

// Run files of models with one scaling for all layers name its keys once.
TEST(RopeLayouts, AKindWithoutAFactorSharesTheOtherScaling) {
  const config::Table values = values_of("olmo3", R"(, "rope_scaling": {"rope_type": "yarn",
      "factor": 8.0, "beta_fast": 16.0, "original_max_position_embeddings": 64},
      "rope_parameters": {"full_attention": {"rope_theta": 50.0},
                          "sliding_attention": {"rope_type": "yarn"}})");
  EXPECT_EQ(values.number("sliding_rope_scaling.factor"), 8);
  EXPECT_EQ(values.number("sliding_rope_scaling.beta_fast"), 16);
  EXPECT_EQ(values.integer("sliding_rope_scaling.original_max_position_embeddings"), 64);
}

TEST(RopeLayouts, DefaultsOfGlobalLayersAreForFilesWithoutTheirObject) {
  const auto expect = [](const std::string& more, const char* type, double share) {
    const config::Table values = values_of("gemma4_text", more);
    EXPECT_EQ(values.string("rope_parameters.full_attention.rope_type"), type) << more;
    EXPECT_EQ(values.number("rope_parameters.full_attention.partial_rotary_factor"), share) << more;
  };
  const auto object = [](const std::string& members) {
    return R"(, "rope_parameters": {"sliding_attention": {"rope_type": "default",
              "rope_theta": 100.0}, "full_attention": {"rope_theta": 1000.0)" +
           members + "}}";
  };
  expect("", "proportional", 0.25);
  expect(object(R"(, "rope_type": "proportional")"), "proportional", 1);
  expect(object(R"(, "rope_type": "proportional", "partial_rotary_factor": 0.5)"), "proportional",
         0.5);
  expect(object(""), "default", 1);
  expect(object(R"(, "rope_type": "default")"), "default", 1);
  // A run file may change one value.
  config::Raw raw = config::parse_json(small_config("gemma4_text"), "config.json", "model.");
  raw.append(config::parse_toml("model.rope_parameters.full_attention.rope_theta = 1e5", "run.toml",
                                config::Origin::Kind::run_file));
  const lamina::testing::TempDir folder;
  const config::ModelSource source =
      config::load_model(folder.write("config.json", small_config("gemma4_text")));
  const config::Table changed =
      load_family(lamina::testing::shipped_plugins(), source).configure(raw, "run.toml").values();
  EXPECT_EQ(changed.string("rope_parameters.full_attention.rope_type"), "proportional");
  EXPECT_EQ(changed.number("rope_parameters.full_attention.partial_rotary_factor"), 0.25);
}

TEST(RopeLayouts, CompressedLayersHaveTheAttentionFactorOfTheirLayout) {
  const auto factor = [](const std::string& more) {
    return values_of("deepseek_v4", more).number("rope_scaling.attention_factor");
  };
  const std::string yarn = R"("rope_type": "yarn", "factor": 10.0)";
  const std::string main = R"(, "rope_parameters": {"main": {"rope_theta": 3.0}, "compress": {)";
  EXPECT_EQ(factor(R"(, "rope_scaling": {)" + yarn + "}"), 1);
  EXPECT_EQ(factor(R"(, "rope_scaling": {"mscale": 1.0, "mscale_all_dim": 0.5, )" + yarn + "}"), 1);
  EXPECT_EQ(factor(R"(, "rope_scaling": {"attention_factor": 1.3, )" + yarn + "}"), 1.3);
  EXPECT_DOUBLE_EQ(factor(main + yarn + "}}"), 0.1 * std::log(10.0) + 1);
  EXPECT_DOUBLE_EQ(factor(main + R"("mscale": 2.0, "mscale_all_dim": 0.5, )" + yarn + "}}"),
                   (0.2 * std::log(10.0) + 1) / (0.05 * std::log(10.0) + 1));
  EXPECT_EQ(factor(main + R"("attention_factor": 1.3, )" + yarn + "}}"), 1.3);
}

TEST(RopeLayouts, LayersOfV4RotateTheSameShareOfAHead) {
  const auto shares = [](const char* main, const char* compress) {
    return refusal("deepseek_v4", fmt::format(R"(, "head_dim": 16, "partial_rotary_factor": 0.125,
                       "rope_parameters": {{"main": {{"partial_rotary_factor": {}}},
                                            "compress": {{"partial_rotary_factor": {}}}}})",
                                              main, compress));
  };
  EXPECT_EQ(shares("0.5", "0.5"), "accepted");
  EXPECT_NE(shares("0.25", "0.5").find("they must be equal"), std::string::npos);
}

// Transformers writes both keys.
TEST(RopeLayouts, TheRotatedDimsOfV4AgreeWithTheShareOfAHead) {
  const auto both = [](int dims, const char* share) {
    return refusal("deepseek_v4", fmt::format(R"(, "head_dim": 16, "qk_rope_head_dim": {},
                       "partial_rotary_factor": {})",
                                              dims, share));
  };
  EXPECT_EQ(both(8, "0.5"), "accepted");
  EXPECT_NE(both(4, "0.5").find("'qk_rope_head_dim': got 4, and the file's partial_rotary_factor "
                                "rotates 8 of head_dim = 16; remove one of them"),
            std::string::npos);
}

TEST(RopeLayouts, TruncateCountsInFlatObjectsOnly) {
  const std::string yarn = R"({"rope_type": "yarn", "factor": 2.0, "truncate": false})";
  EXPECT_FALSE(
      values_of("llama", R"(, "rope_parameters": )" + yarn).boolean("rope_scaling.truncate"));
  for (const auto& [type, group] :
       {std::pair{"olmo3", R"("full_attention")"}, std::pair{"gemma3_text", R"("full_attention")"},
        std::pair{"deepseek_v4", R"("main": {"rope_type": "default"}, "compress")"}}) {
    const ModelConfig nested = configure(
        small_config(type, fmt::format(R"(, "rope_parameters": {{{}: {}}})", group, yarn)));
    EXPECT_TRUE(nested.values().boolean("rope_scaling.truncate")) << type;
    EXPECT_FALSE(nested.unread().empty()) << type;
    const ModelConfig older = configure(small_config(type, R"(, "rope_scaling": )" + yarn));
    EXPECT_TRUE(older.values().boolean("rope_scaling.truncate")) << type;
    EXPECT_EQ(older.idle().size(), 1u) << type;
  }
}

TEST(RopeLayouts, YarnNeedsABase) {
  EXPECT_NE(refusal("llama", R"(, "rope_theta": 1.0,
      "rope_scaling": {"rope_type": "yarn", "factor": 2.0})")
                .find("'rope_theta' is 1; yarn needs another base"),
            std::string::npos);
  EXPECT_EQ(refusal("llama", R"(, "rope_theta": 1.0,
      "rope_scaling": {"rope_type": "linear", "factor": 2.0})"),
            "accepted");
  EXPECT_NE(refusal("olmo3", R"(, "rope_parameters":
      {"full_attention": {"rope_type": "default"},
       "sliding_attention": {"rope_type": "yarn", "rope_theta": 1.0, "factor": 2.0}})")
                .find("'sliding_rope_theta' is 1; yarn needs another base"),
            std::string::npos);
}

TEST(RopeLayouts, PartialFactorOfTheObjectCounts) {
  for (const char* type : {"qwen3_next", "qwen3_5_text"})
    EXPECT_EQ(values_of(type, R"(, "head_dim": 32, "partial_rotary_factor": 0.5,
        "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.125})")
                  .number("partial_rotary_factor"),
              0.125)
        << type;
}

TEST(RopeLayouts, KeysOfALayerTypeCountBesideFlatOnes) {
  const config::Table olmo = values_of("olmo3", R"(, "rope_theta": 9.0,
      "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 7.0,
        "full_attention": {"rope_type": "default", "rope_theta": 70.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 60.0}})");
  EXPECT_EQ(olmo.number("rope_theta"), 70);
  EXPECT_EQ(olmo.string("rope_scaling.rope_type"), "default");
  EXPECT_EQ(olmo.number("sliding_rope_theta"), 60);
  const config::Table gemma = values_of("gemma3_text", R"(, "rope_theta": 9.0,
      "rope_local_base_freq": 3.0,
      "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0},
                          "sliding_attention": {"rope_theta": 4.0}})");
  EXPECT_EQ(gemma.number("rope_theta"), 9);
  EXPECT_EQ(gemma.number("rope_scaling.factor"), 2);
  EXPECT_EQ(gemma.number("rope_local_base_freq"), 4);
}

TEST(RopeLayouts, FlatKeysAloneHaveNoEffectWhereLayerTypesHaveTheirs) {
  const ModelConfig config = configure(small_config("olmo3", R"(, "rope_theta": 9.0,
      "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 7.0})"));
  EXPECT_EQ(config.values().number("rope_theta"), 9);
  EXPECT_EQ(config.values().string("rope_scaling.rope_type"), "default");
  EXPECT_EQ(config.unread().size(), 3u);
}

TEST(RopeLayouts, RopeScalingChangesTheLayersThatSeeEverything) {
  const config::Table values = values_of("gemma3_text", R"(,
      "rope_scaling": {"rope_type": "linear", "factor": 2.0},
      "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 8.0},
                          "sliding_attention": {"rope_theta": 4.0}})");
  EXPECT_EQ(values.string("rope_scaling.rope_type"), "linear");
  EXPECT_EQ(values.number("rope_scaling.factor"), 2);
  EXPECT_EQ(values.number("rope_theta"), 8);
  EXPECT_EQ(values.number("rope_local_base_freq"), 4);
}

TEST(RopeLayouts, CompressedLayersHaveSeparateKeys) {
  const config::Table flat = values_of("deepseek_v4", R"(, "rope_theta": 5.0,
      "compress_rope_theta": 6.0,
      "rope_parameters": {"rope_theta": 3.0, "rope_type": "linear", "factor": 2.0})");
  EXPECT_EQ(flat.number("rope_theta"), 5);
  EXPECT_EQ(flat.number("compress_rope_theta"), 6);
  EXPECT_EQ(flat.number("rope_scaling.factor"), 2);
  const config::Table nested = values_of("deepseek_v4", R"(, "rope_theta": 5.0,
      "compress_rope_theta": 6.0,
      "rope_parameters": {"rope_theta": 3.0, "rope_type": "linear", "factor": 2.0,
        "main": {"rope_type": "default", "rope_theta": 1.0},
        "compress": {"rope_type": "default", "rope_theta": 2.0}})");
  EXPECT_EQ(nested.number("rope_theta"), 1);
  EXPECT_EQ(nested.number("compress_rope_theta"), 2);
  EXPECT_EQ(nested.string("rope_scaling.rope_type"), "default");
}

TEST(RopeLayouts, ObjectsOfLayersThatAFamilyLacksAreRefused) {
  const std::string nested =
      R"(, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}})";
  for (const char* type : {"llama", "qwen3", "gemma2"})
    EXPECT_NE(refusal(type, nested).find("'rope_parameters.full_attention' is an object"),
              std::string::npos)
        << type;
  EXPECT_NE(refusal("gemma4_text", R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})")
                .find("'rope_scaling' is not read by family 'gemma4'"),
            std::string::npos);
}

TEST(RopeLayouts, AContextAtTheTopHasPrecedenceOverTheObjects) {
  const auto context = [](const char* type, const std::string& more) {
    return values_of(type, R"(, "original_max_position_embeddings": 16)" + more)
        .integer("rope_scaling.original_max_position_embeddings");
  };
  for (const char* object : {"rope_parameters", "rope_scaling"}) {
    EXPECT_EQ(context("llama", fmt::format(R"(, "{}": {{"rope_type": "yarn", "factor": 4.0,
                      "original_max_position_embeddings": 8}})",
                                           object)),
              16);
    EXPECT_EQ(context("llama", fmt::format(R"(, "{}": {{"rope_type": "llama3", "factor": 4.0,
                      "low_freq_factor": 1.0, "high_freq_factor": 4.0}})",
                                           object)),
              16);
  }
  EXPECT_EQ(context("deepseek_v3", R"(, "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
                    "original_max_position_embeddings": 8})"),
            16);
  EXPECT_EQ(context("olmo3", R"(, "rope_parameters": {
                    "full_attention": {"rope_type": "yarn", "factor": 4.0,
                                       "original_max_position_embeddings": 8},
                    "sliding_attention": {"rope_type": "default"}})"),
            8);
}

TEST(RopeLayouts, KindsOfScalingRequireTheirKeys) {
  const auto lacks = [](const char* kind, const char* more, const char* key) {
    for (const char* object : {"rope_parameters", "rope_scaling"}) {
      const std::string error =
          refusal("llama", fmt::format(R"(, "{}": {{"rope_type": "{}"{}}})", object, kind, more));
      EXPECT_NE(
          error.find(fmt::format("'{0}.{1}' is missing; '{0}.rope_type' = \"{2}\" requires it",
                                 object, key, kind)),
          std::string::npos)
          << error;
    }
  };
  for (const char* kind : {"linear", "dynamic", "yarn", "llama3"}) lacks(kind, "", "factor");
  lacks("linear", R"(, "factor": null)", "factor");
  lacks("llama3", R"(, "factor": 8.0)", "low_freq_factor");
  lacks("llama3", R"(, "factor": 8.0, "low_freq_factor": 1.0)", "high_freq_factor");
  EXPECT_NE(refusal("llama", R"(, "rope_parameters": {"rope_type": null})")
                .find("'rope_parameters.rope_type' is null; expected a kind of scaling"),
            std::string::npos);
  EXPECT_NE(refusal("llama", R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                   "attention_factor": 0.0})")
                .find("'rope_scaling.attention_factor' is 0; it must be greater than 0"),
            std::string::npos);
  EXPECT_EQ(refusal("llama", R"(, "rope_scaling": {"rope_type": "default", "factor": null})"),
            "accepted");
}

TEST(RopeLayouts, AKindThatTheFamilyLacksIsRefusedForItself) {
  const std::string error = refusal("phi3", R"(, "rope_scaling": {"type": "yarn"})");
  EXPECT_NE(error.find("'rope_scaling.type' must be"), std::string::npos) << error;
  EXPECT_EQ(error.find("factor"), std::string::npos) << error;
}

TEST(RopeLayouts, SectionsOfImagesFitAnyWidthOfText) {
  for (const char* type : {"qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_omni_moe_text",
                           "qwen3_5_text", "qwen3_5_moe_text"})
    for (const char* more : {R"(, "head_dim": 16)", R"(, "head_dim": 64)",
                             R"(, "head_dim": 16,
                                 "rope_parameters": {"rope_type": "default",
                                                     "mrope_section": [1, 1, 1],
                                                     "mrope_interleaved": true})"})
      EXPECT_NO_THROW(values_of(type, more)) << type << more;
}

TEST(RopeLayouts, StretchedPositionsAreTheLimit) {
  const auto limit = [](const std::string& more) {
    return configure(small_config("llama", R"(, "max_position_embeddings": 32)" + more))
        .max_positions();
  };
  EXPECT_EQ(limit(""), 32);
  EXPECT_EQ(limit(R"(, "rope_scaling": {"type": "yarn", "factor": 4.0})"), 128);
  EXPECT_EQ(limit(R"(, "rope_scaling": {"type": "yarn", "factor": 4.0,
                     "original_max_position_embeddings": 8})"),
            32);
  EXPECT_EQ(limit(R"(, "rope_parameters": {"rope_type": "dynamic", "factor": 2.0})"), 64);
  EXPECT_EQ(limit(R"(, "rope_scaling": {"type": "linear", "factor": 4.0})"), 32);
}

// Transformers writes the divisors into rope_parameters; older files have rope_scaling and the
// original length beside it. Phi-3 files have "su" as type.
TEST(RopeLayouts, DivisorsOfLongRopeAreReadInBothLayouts) {
  const std::string divisors = R"("short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0])";
  for (const std::string& more :
       {R"(, "original_max_position_embeddings": 8, "rope_scaling": {"type": "su", )" + divisors +
            "}",
        R"(, "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0,
             "original_max_position_embeddings": 8, )" +
            divisors + "}"}) {
    const config::Table values = values_of("phi3", R"(, "head_dim": 4)" + more);
    EXPECT_EQ(values.integer("rope_scaling.original_max_position_embeddings"), 8);
    EXPECT_EQ(values.list("rope_scaling.short_factor"), (config::List{1.0, 2.0}));
    EXPECT_EQ(values.list("rope_scaling.long_factor"), (config::List{3.0, 4.0}));
  }
}

// Phi3Config has the original length at the top only, and 4096 without it.
TEST(RopeLayouts, ExportsOfPhi3HaveTheOriginalLengthAtTheTop) {
  const ModelConfig config = configure(small_config("phi3", R"(, "head_dim": 4,
      "max_position_embeddings": 64, "original_max_position_embeddings": 16,
      "rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0],
                       "long_factor": [3.0, 4.0]})"));
  const std::string text =
      weights::hf_config(load_family(lamina::testing::shipped_plugins(), "phi3").names(), config,
                         {.dtype = "float32"});
  const JsonDocument json = JsonDocument::parse(text, "config.json");
  EXPECT_EQ(json.root().at("original_max_position_embeddings").as_int64(), 16) << text;
  EXPECT_FALSE(json.root().at("rope_scaling").find("original_max_position_embeddings")) << text;
  EXPECT_EQ(configure(text).values().integer("rope_scaling.original_max_position_embeddings"), 16);
}

TEST(RopeLayouts, AFactorOfYarnThatIsNullIsTheRatioOfTheContexts) {
  const std::string yarn = R"(, "max_position_embeddings": 96,
      "rope_parameters": {"rope_type": "yarn", "factor": null)";
  const auto factor = [](const std::string& more) {
    return values_of("llama", more).number("rope_scaling.factor");
  };
  EXPECT_EQ(factor(yarn + R"(, "original_max_position_embeddings": 16})"), 6);
  EXPECT_EQ(factor(yarn + R"(}, "original_max_position_embeddings": 24)"), 4);
  EXPECT_EQ(factor(yarn + "}"), 1);
}

// Without an attention_factor the op takes a factor of 1 for the ratio of the contexts.
TEST(RopeLayouts, AnExplicitFactorOfOneScalesNoScoresOfLongRope) {
  const auto attention = [](const std::string& more) {
    return values_of("llama", R"(, "head_dim": 4, "max_position_embeddings": 96,
        "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0, 2.0],
                         "long_factor": [3.0, 4.0], "original_max_position_embeddings": 16)" +
                                  more + "}")
        .number("rope_scaling.attention_factor");
  };
  EXPECT_EQ(attention(""), 0);
  EXPECT_EQ(attention(R"(, "factor": null)"), 0);
  EXPECT_EQ(attention(R"(, "factor": 6.0)"), 0);
  EXPECT_EQ(attention(R"(, "factor": 1)"), 1);
  EXPECT_EQ(attention(R"(, "factor": 1.0, "attention_factor": 2.0)"), 2);
}

TEST(RopeLayouts, LongRopeNeedsADivisorForEachPair) {
  EXPECT_NE(refusal("llama", R"(, "head_dim": 8, "rope_scaling": {"rope_type": "longrope",
                "short_factor": [1, 1, 1], "long_factor": [1, 1, 1, 1]})")
                .find("'rope_scaling.short_factor': got 3 numbers; longrope needs 4, one for each "
                      "rotated pair of head_dim = 8"),
            std::string::npos);
}

TEST(TensorNames, AWrapperNeedsNoTypeOfItsTextModel) {
  const std::string text = lamina::testing::small_config("gemma3_text");
  const std::string members = text.substr(text.find(',') + 1);  // without model_type
  EXPECT_TRUE(configure(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 4},
                            "text_config": {)" +
                        members + "}")
                  .in_wrapper());
  EXPECT_FALSE(configure(text).in_wrapper());
}

TEST(TensorNames, TextModelsOfWrappersAreRead) {
  for (const char* type : {"cohere", "cohere2", "deepseek_v2", "deepseek_v3", "gemma", "lfm2",
                           "llama", "mistral", "mixtral", "olmo2", "olmo3", "phi3"}) {
    const lamina::testing::TempDir folder;
    const config::ModelSource source =
        config::load_model(folder.write("config.json", small_config(type)));
    const auto& prefixes =
        load_family(lamina::testing::shipped_plugins(), source).tensor_prefixes();
    for (const char* prefix : {"language_model.", "model.language_model."})
      EXPECT_EQ(std::ranges::count(prefixes, prefix), 1) << type;
  }
}

TEST(LayerTypes, LayerSwitchHasNoEffect) {
  const ModelConfig config = configure(small_config("cohere2", R"(, "layer_switch": 2)"));
  EXPECT_EQ(config.values().integer("sliding_window_pattern"), 4);
  EXPECT_TRUE(config.unread().empty());
}

TEST(LayerTypes, FamiliesWithOneKindOfLayerAcceptOnlyThatKind) {
  const std::string full = R"(, "layer_types": ["full_attention", "full_attention",
      "full_attention", "full_attention"])";
  const std::string one_slides = R"(, "layer_types": ["full_attention", "sliding_attention",
      "full_attention", "full_attention"])";
  for (const char* type :
       {"llama", "olmo2", "gemma", "gpt2", "mixtral", "qwen3_moe", "qwen3_vl_text",
        "qwen3_vl_moe_text", "qwen3_omni_moe_text", "deepseek_v2", "deepseek_v3"}) {
    EXPECT_EQ(refusal(type, full), "accepted") << type;
    EXPECT_NE(refusal(type, one_slides).find("layer_types"), std::string::npos) << type;
  }
}

TEST(LayerTypes, AWindowNeedsALayerTypeForIt) {
  const std::string slides = R"(, "layer_types": ["sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention"])";
  EXPECT_EQ(refusal("mixtral", slides + R"(, "sliding_window": 8)"), "accepted");
  EXPECT_NE(refusal("mixtral", slides).find("all layers of this model attend to all tokens"),
            std::string::npos);
  EXPECT_EQ(refusal("qwen3_moe", slides + R"(, "sliding_window": 8, "use_sliding_window": true)"),
            "accepted");
}

TEST(LayerTypes, SlidingLayersWithoutAWindowAreRefused) {
  const std::string types = R"(, "layer_types": ["full_attention", "sliding_attention",
      "full_attention", "sliding_attention"])";
  for (const char* type : {"qwen2", "qwen3"}) {
    EXPECT_NE(refusal(type, types).find("use_sliding_window"), std::string::npos) << type;
    EXPECT_EQ(refusal(type, types + R"(, "use_sliding_window": true, "sliding_window": 8)"),
              "accepted");
  }
  const std::string full = R"(, "layer_types": ["full_attention", "full_attention",
      "full_attention", "full_attention"])";
  for (const char* type : {"mistral", "gemma2", "gemma3_text", "cohere2", "olmo3", "gpt_oss"}) {
    const std::string error = refusal(type, types + R"(, "sliding_window": null)");
    EXPECT_NE(error.find("'sliding_window': got 0 with sliding_attention layers"), error.npos)
        << error;
    EXPECT_NE(error.find("\n  sliding_window is null at "), error.npos) << error;
    EXPECT_NE(error.find("config.json:3, which means 0"), error.npos) << error;
    EXPECT_EQ(refusal(type, types + R"(, "sliding_window": 0)").find("null"), error.npos) << type;
    EXPECT_EQ(refusal(type, full + R"(, "sliding_window": null)"), "accepted") << type;
  }
}

// The layers of a model, in order.
std::vector<PositionSpec> layers_of(const std::string& model_type, const std::string& more) {
  const lamina::testing::TempDir folder;
  const config::ModelSource source =
      config::load_model(folder.write("config.json", small_config(model_type, more)));
  const Family& family = load_family(lamina::testing::shipped_plugins(), source);
  std::vector<PositionSpec> out;
  for (const SegmentSpec& segment : family.plan(family.configure(source.raw, "")).segments)
    for (std::int64_t time = 0; time < segment.times; ++time)
      out.insert(out.end(), segment.unit.begin(), segment.unit.end());
  return out;
}

TEST(LayerTypes, ChooseTheLayersOfMistralWithAWindow) {
  std::vector<bool> full;
  for (const PositionSpec& layer : layers_of("mistral", R"(, "sliding_window": 8,
      "layer_types": ["full_attention", "sliding_attention",
                      "full_attention", "sliding_attention"])"))
    full.push_back(!layer.overrides.empty());
  EXPECT_EQ(full, (std::vector<bool>{true, false, true, false}));
}

TEST(LayerTypes, AWindowThatIsNullIsNone) {
  const auto windows = [](const char* type, const char* window) {
    std::vector<config::Value> out;
    for (const PositionSpec& layer : layers_of(
             type,
             fmt::format(R"(, "use_sliding_window": true, "max_window_layers": 3, {})", window)))
      out.push_back(layer.overrides.at(0).value);
    return out;
  };
  for (const char* type : {"qwen2", "qwen3"}) {
    EXPECT_EQ(windows(type, R"("sliding_window": null)"), std::vector<config::Value>(4, 0)) << type;
    EXPECT_EQ(windows(type, R"("sliding_window": 8)"), (std::vector<config::Value>{0, 0, 0, 8}));
  }
  EXPECT_EQ(refusal("qwen3_moe", R"(, "use_sliding_window": true, "sliding_window": null,
      "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])"),
            "accepted");
}

TEST(LayerTypes, SparseAttentionNeedsTheIndexer) {
  const std::string indexed = R"(, "layer_types": ["indexed_attention", "indexed_attention",
      "indexed_attention", "indexed_attention"])";
  EXPECT_EQ(refusal("deepseek_v3", indexed + R"(, "index_n_heads": 2)"), "accepted");
  EXPECT_NE(refusal("deepseek_v3", indexed).find("index_n_heads"), std::string::npos);
  EXPECT_EQ(values_of("deepseek_v3", "").integer("index_n_heads"), 0);
  EXPECT_EQ(values_of("deepseek_v32", indexed).integer("index_n_heads"), 64);
  EXPECT_EQ(values_of("deepseek_v32", "").integer("index_topk"), 2048);
  EXPECT_EQ(values_of("deepseek_v32", R"(, "index_n_heads": 2)").integer("index_n_heads"), 2);
  // Without heads nothing derives keys of the indexer, which would be refused.
  EXPECT_FALSE(values_of("deepseek_v32", R"(, "index_n_heads": 0)").has("index_topk"));
  EXPECT_NE(refusal("deepseek_v32", R"(, "index_n_heads": 0, "index_topk": 8)")
                .find("'index_topk': needs an indexer, and index_n_heads is 0"),
            std::string::npos);
}

TEST(LayerTypes, WithoutChunksAllLayersSeeEverything) {
  EXPECT_EQ(refusal("llama4_text", R"(, "attention_chunk_size": null, "layer_types":
      ["full_attention", "full_attention", "full_attention", "full_attention"])"),
            "accepted");
}

TEST(LayerTypes, AreRefusedPerLayerIfTheFamilyHasNone) {
  EXPECT_NE(refusal("llama", R"(, "per_layer_config": {"1": {"intermediate_size": 8}})")
                .find("'per_layer_config.1.intermediate_size' is 8"),
            std::string::npos);
}

// One layer of the four is global, the last.
TEST(LayerTypes, GlobalLayersOfGemma4HaveTheHeadsOfPerLayerConfig) {
  const auto more = [](const std::string& layers, const std::string& rest = "") {
    return R"(, "head_dim": 16, "per_layer_config": {)" + layers + "}" + rest;
  };
  const auto expect_heads = [&](const std::string& json, std::int64_t width, std::int64_t heads,
                                bool apart) {
    const config::Table values = values_of("gemma4_text", json);
    EXPECT_EQ(values.integer("global_head_dim"), width) << json;
    constexpr const char* kHeads = "num_global_key_value_heads";
    EXPECT_EQ(values.has(kHeads) ? values.integer(kHeads) : 0, heads) << json;
    EXPECT_EQ(values.boolean("global_heads_apart"), apart) << json;
  };
  const std::string both = R"("03": {"head_dim": 32, "num_key_value_heads": 2})";
  const std::string of_keys = R"(, "attention_k_eq_v": true)";
  expect_heads(more(both), 32, 2, true);
  expect_heads(more(both, of_keys), 32, 2, false);
  const std::string null = R"(, "num_global_key_value_heads": null)";
  expect_heads(more(both, null), 32, 2, true);
  expect_heads(more(both, of_keys + null), 32, 2, false);
  expect_heads(R"(, "head_dim": 16)" + of_keys + null, 512, 0, false);
  expect_heads(more(R"("3": {"head_dim": 32})"), 32, 0, false);
  expect_heads(more(""), 16, 0, false);
  expect_heads(R"(, "head_dim": 16, "num_global_key_value_heads": 2)", 512, 2, false);
  const auto expect_refusal = [&](const std::string& json, const std::string& says) {
    const std::string text = refusal("gemma4_text", json);
    EXPECT_NE(text.find(says), std::string::npos) << text;
  };
  expect_refusal(
      more(R"("1": {"num_key_value_heads": 2})"),
      "'num_global_key_value_heads': per_layer_config has 2 for layer 1; it must be 4, as "
      "in all local layers");
  expect_refusal(more(both, R"(, "layer_types": ["full_attention", "sliding_attention",
                      "sliding_attention", "full_attention"])"),
                 "'global_head_dim': per_layer_config has 16 for layer 0; it must be 32, as in all "
                 "global layers");
  expect_refusal(more(R"("4": {"head_dim": 32})"),
                 "'global_head_dim': per_layer_config names layer 4; there are 4 layers, from 0");
  expect_refusal(
      more(both, of_keys + R"(, "num_global_key_value_heads": 1)"),
      "'num_global_key_value_heads': got 1, and per_layer_config has 2 for global layers");
}

TEST(Nulls, AsKeyValueHeadsAreTheQueryHeads) {
  // `sizes` without num_key_value_heads, whose default in most of these classes is another number.
  const std::string sizes = R"(, "vocab_size": 32, "hidden_size": 64, "intermediate_size": 64,
      "num_hidden_layers": 4, "num_attention_heads": 16)";
  const auto heads = [&](const std::string& type, const std::string& more) {
    return configure(R"({"model_type": ")" + type + '"' + sizes + more + "}")
        .describe("num_key_value_heads");
  };
  for (const char* type : {"mistral", "mixtral", "llama4_text", "qwen2", "qwen3", "qwen3_moe",
                           "gpt_oss", "llama", "olmo2"})
    EXPECT_EQ(heads(type, R"(, "num_key_value_heads": null)"),
              "num_key_value_heads = 16 (as num_attention_heads)")
        << type;
  for (const char* type : {"mistral", "mixtral", "llama4_text", "gpt_oss"})
    EXPECT_EQ(heads(type, ""), "num_key_value_heads = 8 (default)") << type;
}

// In V3's class they may be null, which its model reads as false. V2's class has no
// rope_interleave.
TEST(Nulls, AsFlagsOfDeepSeekAreFalse) {
  const std::string nulls = R"(, "rope_interleave": null, "norm_topk_prob": null)";
  const ModelConfig v3 = configure(small_config("deepseek_v3", nulls));
  EXPECT_FALSE(v3.values().boolean("rope_interleave"));
  EXPECT_FALSE(v3.values().boolean("norm_topk_prob"));
  EXPECT_TRUE(values_of("deepseek_v3", "").boolean("rope_interleave"));
  EXPECT_TRUE(values_of("deepseek_v3", "").boolean("norm_topk_prob"));
  EXPECT_TRUE(values_of("deepseek_v2", nulls).boolean("rope_interleave"));
  EXPECT_FALSE(values_of("deepseek_v2", nulls).boolean("norm_topk_prob"));
  const JsonDocument json = JsonDocument::parse(
      weights::hf_config(load_family(lamina::testing::shipped_plugins(), "deepseek").names(), v3,
                         {.dtype = "float32"}),
      "config.json");
  EXPECT_FALSE(json.root().at("rope_interleave").as_bool());
  EXPECT_FALSE(json.root().at("norm_topk_prob").as_bool());
}

// The blocks of a model's layers, by their ids.
std::vector<std::uint32_t> blocks_of(const std::string& model_type, const std::string& more) {
  std::vector<std::uint32_t> out;
  for (const PositionSpec& layer : layers_of(model_type, more)) out.push_back(layer.block);
  return out;
}

// Llama 4: 1 and 2 are layers with positions, 3 and 4 without; 2 and 4 have experts.
TEST(ListedLayers, AnEmptyListIsNotAMissingOne) {
  using Blocks = std::vector<std::uint32_t>;
  EXPECT_EQ(blocks_of("llama4_text", ""), (Blocks{2, 2, 2, 4}));
  EXPECT_EQ(blocks_of("llama4_text", R"(, "moe_layers": null)"), (Blocks{2, 2, 2, 4}));
  EXPECT_EQ(blocks_of("llama4_text", R"(, "moe_layers": [])"), (Blocks{1, 1, 1, 3}));
  EXPECT_EQ(blocks_of("llama4_text", R"(, "moe_layers": [1])"), (Blocks{1, 2, 1, 3}));
}

// In transformers a layer looks for its own index in the list. Qwen 3 with experts: 1 is dense, 2
// has experts; Qwen 3 Next: 1 and 2 are delta nets, 3 and 4 attention; 2 and 4 have experts.
TEST(ListedLayers, IndicesBeyondTheLastLayerHaveNoEffect) {
  using Blocks = std::vector<std::uint32_t>;
  for (const char* type : {"qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"})
    EXPECT_EQ(blocks_of(type, R"(, "mlp_only_layers": [0, 4, 9])"), (Blocks{1, 2, 2, 2})) << type;
  EXPECT_EQ(blocks_of("qwen3_next", R"(, "mlp_only_layers": [0, 4])"), (Blocks{1, 2, 2, 4}));
  EXPECT_EQ(blocks_of("lfm2", R"(, "full_attn_idxs": [1, 4])"), (Blocks{1, 2, 1, 1}));
  EXPECT_EQ(blocks_of("llama4_text", R"(, "moe_layers": [1, 4])"), (Blocks{1, 2, 1, 3}));
  EXPECT_EQ(blocks_of("llama4_text", R"(, "num_local_experts": 0, "moe_layers": [4])"),
            (Blocks{1, 1, 1, 3}));
}

// LFM2: 1 is a convolution, 2 attention.
TEST(ListedLayers, AnEmptyListOfAttentionMeansConvolutionsOnly) {
  using Blocks = std::vector<std::uint32_t>;
  EXPECT_EQ(blocks_of("lfm2", ""), (Blocks{2, 2, 2, 2}));
  EXPECT_EQ(blocks_of("lfm2", R"(, "full_attn_idxs": null)"), (Blocks{2, 2, 2, 2}));
  EXPECT_EQ(blocks_of("lfm2", R"(, "full_attn_idxs": [])"), (Blocks{1, 1, 1, 1}));
  EXPECT_EQ(blocks_of("lfm2", R"(, "full_attn_idxs": [1, 3])"), (Blocks{1, 2, 1, 2}));
}

TEST(OlderNames, OfLfm2AreReadAsInTransformers) {
  const auto tied = [](const std::string& more) {
    return values_of("lfm2", more).boolean("tie_word_embeddings");
  };
  EXPECT_TRUE(tied(""));
  EXPECT_FALSE(tied(R"(, "tie_word_embeddings": false)"));
  EXPECT_FALSE(tied(R"(, "tie_embedding": false)"));
  EXPECT_FALSE(tied(R"(, "tie_embedding": false, "tie_word_embeddings": true)"));
  EXPECT_TRUE(tied(R"(, "tie_word_embeddings": false, "tie_embedding": true)"));
  const auto theta = [](const std::string& more) {
    return values_of("lfm2", more).number("rope_theta");
  };
  EXPECT_EQ(theta(""), 1000000);
  EXPECT_EQ(theta(R"(, "theta": 70.0)"), 70);
  EXPECT_EQ(theta(R"(, "theta": 70.0, "rope_theta": 50.0)"), 50);
  EXPECT_EQ(theta(R"(, "theta": 70.0, "rope_parameters": {"rope_theta": 60.0})"), 60);
}

// As min(key, layers) in transformers. DeepSeek: 3 is a dense layer. V4: 8 is a layer with long
// windows whose experts a table chooses.
TEST(ListedLayers, CountsOfFirstLayersMayExceedTheLayers) {
  using Blocks = std::vector<std::uint32_t>;
  for (const char* type : {"deepseek_v2", "deepseek_v3"})
    EXPECT_EQ(blocks_of(type, R"(, "first_k_dense_replace": 9)"), (Blocks{3, 3, 3, 3})) << type;
  EXPECT_EQ(blocks_of("deepseek_v4", R"(, "num_hash_layers": 9,
      "compress_ratios": [128, 128, 128, 128])"),
            (Blocks{8, 8, 8, 8}));
}

// Llama Guard 4.
TEST(ListedLayers, AModelWithoutExpertsIsDense) {
  EXPECT_EQ(blocks_of("llama4_text", R"(, "num_local_experts": 0, "num_experts_per_tok": 0,
      "interleave_moe_layer_step": 0, "moe_layers": [])"),
            (std::vector<std::uint32_t>{1, 1, 1, 3}));
  EXPECT_NE(refusal("llama4_text", R"(, "num_local_experts": 0)")
                .find("'num_local_experts': got 0, but by interleave_moe_layer_step"),
            std::string::npos);
  for (const char* type : {"qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"})
    EXPECT_EQ(blocks_of(type, R"(, "num_experts": 0)"), (std::vector<std::uint32_t>{1, 1, 1, 1}))
        << type;
  EXPECT_EQ(blocks_of("qwen3_next", R"(, "num_experts": 0, "num_experts_per_tok": 0)"),
            (std::vector<std::uint32_t>{1, 1, 1, 3}));
}

TEST(ForeignKeys, HostKeysAreRefusedInConfigJson) {
  for (const char* member : {R"("use_qk_norm": true)", R"("logit_scale": 0.5)",
                             R"("final_logit_softcapping": 30.0)", R"("attention_sink": true)",
                             R"("partial_rotary_factor": 0.5)", R"("attention_type": "global")"}) {
    const std::string name(
        std::string_view(member).substr(1, std::string_view(member).find('"', 1) - 1));
    const std::string error = refusal("llama", std::string(", ") + member);
    EXPECT_NE(error.find("'" + name + "' is "), std::string::npos) << error;
    EXPECT_NE(error.find("family 'llama2' does not read it"), std::string::npos) << error;
  }
}

TEST(ForeignKeys, HostKeysWithoutEffectAreAccepted) {
  for (const char* member :
       {R"("use_qk_norm": false)", R"("logit_scale": 1)", R"("final_logit_softcapping": null)",
        R"("partial_rotary_factor": 1.0)"})
    EXPECT_EQ(refusal("llama", std::string(", ") + member), "accepted") << member;
}

TEST(ForeignKeys, AreTheHostsInItsObject) {
  const config::Table values = values_of("llama", R"(, "lamina": {"logit_scale": 0.5})");
  EXPECT_EQ(values.number("logit_scale"), 0.5);
}

// Only lamina writes the object, so each member changes the model.
TEST(ForeignKeys, UnknownMembersOfTheHostsObjectAreRefused) {
  for (const char* members :
       {R"("ffn_scale": 4.0)", R"("logit_scale": 0.5, "ffn_scale": {"x": 1, "y": 2})",
        R"("ffn_scale": null)", R"("ffn_scale": [1, null])"}) {
    const std::string error = refusal("mistral", fmt::format(R"(, "lamina": {{{}}})", members));
    EXPECT_NE(error.find("'lamina.ffn_scale' changes the model, but family 'mistral' does not have "
                         "this key\n"),
              std::string::npos)
        << members << ": " << error;
    EXPECT_EQ(error.find("also: "), std::string::npos) << error;
  }
  for (const char* members : {"", R"("logit_scale": 0.5)", R"("logit_scale": null)"})
    EXPECT_EQ(refusal("mistral", fmt::format(R"(, "lamina": {{{}}})", members)), "accepted")
        << members;
}

TEST(ForeignKeys, AWindowOfAFamilyWithoutOneHasNoEffect) {
  const ModelConfig config = configure(small_config("llama", R"(, "sliding_window": 8)"));
  ASSERT_EQ(config.idle().size(), 1u);
  EXPECT_TRUE(config.idle()[0].starts_with("sliding_window (")) << config.idle()[0];
  EXPECT_TRUE(config.idle()[0].ends_with("; family 'llama2' reads it as 'lamina.sliding_window')"))
      << config.idle()[0];
  for (const char* silent : {"null", "0"})
    EXPECT_TRUE(configure(small_config("llama", fmt::format(R"(, "sliding_window": {})", silent)))
                    .idle()
                    .empty());
  EXPECT_EQ(values_of("llama", R"(, "sliding_window": 8)").integer("sliding_window"), 0);
  EXPECT_EQ(values_of("llama", R"(, "lamina": {"sliding_window": 8})").integer("sliding_window"),
            8);
}

TEST(ForeignKeys, EncoderKeysAreRefused) {
  for (const char* key : {"is_encoder_decoder", "add_cross_attention"})
    for (const char* type : {"llama", "gpt2"})
      EXPECT_NE(refusal(type, fmt::format(R"(, "{}": true)", key))
                    .find(fmt::format("'{}' is true; it must be false", key)),
                std::string::npos);
}

TEST(ForeignKeys, AttentionToLaterTokensIsRefused) {
  for (const char* type : {"llama", "gpt2", "gemma3_text", "gpt_oss", "deepseek_v3", "qwen2",
                           "qwen3_moe", "mixtral", "olmo2"}) {
    EXPECT_NE(refusal(type, R"(, "is_causal": false)")
                  .find("'is_causal' is false; it must be true: lamina runs decoders"),
              std::string::npos);
    EXPECT_EQ(refusal(type, R"(, "is_causal": true)"), "accepted");
  }
}

TEST(ForeignKeys, MistralHasNoBiases) {
  for (const char* type : {"mistral", "ministral", "mixtral"}) {
    const ModelConfig config = configure(small_config(type, R"(, "attention_bias": true)"));
    EXPECT_FALSE(config.values().has("attention_bias")) << type;
    EXPECT_EQ(config.unread().size(), 1u) << type;
  }
}

TEST(ForeignKeys, BiasesOfQwen2AreNoChoice) {
  const ModelConfig config = configure(small_config("qwen2", R"(, "attention_bias": false)"));
  EXPECT_TRUE(config.values().boolean("attention_bias"));
  EXPECT_EQ(config.idle().size(), 1u);
  EXPECT_FALSE(
      values_of("qwen2", R"(, "lamina": {"attention_bias": false})").boolean("attention_bias"));
}

// Their classes have no such field, and their routers always divide.
TEST(ForeignKeys, ASumThatAlwaysDividesIsNoChoice) {
  const std::string off =
      R"(, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": false)";
  for (const char* type : {"qwen3_5_moe_text", "qwen3_vl_moe_text"}) {
    const ModelConfig config = configure(small_config(type, off));
    EXPECT_FALSE(config.values().has("norm_topk_prob")) << type;
    ASSERT_EQ(config.unread().size(), 1u) << type;
    EXPECT_TRUE(config.unread()[0].starts_with("norm_topk_prob (")) << config.unread()[0];
  }
  for (const char* type : {"qwen3_next", "qwen3_moe", "qwen3_omni_moe_text"})
    EXPECT_FALSE(values_of(type, off).boolean("norm_topk_prob")) << type;
}

// Their classes have the key, and their models return logits of routers, but add no loss.
TEST(ForeignKeys, ABalanceLossThatTheOriginalLacksIsLaminas) {
  const std::string on = R"("output_router_logits": true)";
  for (const char* type :
       {"deepseek_v2", "deepseek_v3", "deepseek_v32", "gemma4_text", "llama4_text"}) {
    const ModelConfig config = configure(small_config(type, ", " + on));
    EXPECT_FALSE(config.values().boolean("output_router_logits")) << type;
    ASSERT_EQ(config.idle().size(), 1u) << type;
    EXPECT_TRUE(config.idle()[0].starts_with("output_router_logits (")) << config.idle()[0];
    EXPECT_TRUE(values_of(type, R"(, "lamina": {)" + on + "}").boolean("output_router_logits"))
        << type;
  }
  for (const char* type : {"deepseek_v4", "mixtral", "qwen3_moe", "gpt_oss"})
    EXPECT_TRUE(values_of(type, ", " + on).boolean("output_router_logits")) << type;
}

TEST(ForeignKeys, UnreadKeysAreListedInOrder) {
  const ModelConfig config = configure(small_config(
      "llama", R"(, "zebra": 1, "alibi": true, "bottleneck": {"width": 3, "depth": [1, null]},
                   "use_cache": true, "rope_parameters": {"stretch": 2}, "blocks": [{"a": 1}])"));
  std::vector<std::string> names;
  for (const std::string& key : config.unread()) names.push_back(key.substr(0, key.find(' ')));
  EXPECT_EQ(names, (std::vector<std::string>{"alibi", "blocks", "bottleneck",
                                             "rope_parameters.stretch", "zebra"}));
}

TEST(ForeignKeys, ThoseThatChangeOtherModelsAreKnown) {
  const auto changing = [](const std::string& member) {
    const std::vector<std::string> found =
        configure(small_config("llama", ", " + member)).changing();
    return found.empty() ? "" : found.front().substr(0, found.front().find(" ("));
  };
  EXPECT_EQ(changing(R"("alibi": true)"), "'alibi' = true");
  EXPECT_EQ(changing(R"("residual_multiplier": 0.22)"), "'residual_multiplier' = 0.22");
  EXPECT_EQ(changing(R"("attention_multiplier": 1)"), "'attention_multiplier' = 1");
  EXPECT_EQ(changing(R"("rotary_pct": 0.25)"), "'rotary_pct' = 0.25");
  for (const char* silent :
       {R"("alibi": false)", R"("alibi": 0)", R"("alibi": null)", R"("embedding_multiplier": 1.0)",
        R"("residual_multiplier": 1)", R"("zebra": 3)", R"("use_cache": true)"})
    EXPECT_EQ(changing(silent), "") << silent;
}

TEST(TrainingKeys, GiveAWarningWhereTheyAreNotZero) {
  const auto differences = [](const std::string& type, const std::string& more) {
    return configure(small_config(type, more)).training_differences();
  };
  EXPECT_TRUE(
      differences("mixtral", R"(, "attention_dropout": 0.0, "router_jitter_noise": 0)").empty());
  const std::vector<std::string> both =
      differences("mixtral", R"(, "attention_dropout": 0.5, "router_jitter_noise": 0.25)");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_NE(both[0].find("'attention_dropout' is 0.5 ("), std::string::npos);
  EXPECT_NE(both[0].find("unless 'model.attention_dropout_rate' is set"), std::string::npos);
  EXPECT_NE(both[1].find("'router_jitter_noise' is 0.25 ("), std::string::npos);
  EXPECT_NE(both[1].find("noise on the inputs of routers"), std::string::npos);
  EXPECT_EQ(differences("gpt2", R"(, "attn_pdrop": 0.1, "resid_pdrop": 0.1)").size(), 2u);
}

TEST(InfiniteNumbers, AreReadInKeysThatNothingReads) {
  for (const char* value : {"Infinity", "-Infinity", "NaN", R"({"__float__": "Infinity"})",
                            R"([0.0, {"__float__": "NaN"}])"})
    EXPECT_EQ(refusal("llama", fmt::format(R"(, "time_step_limit": {})", value)), "accepted");
}

TEST(InfiniteNumbers, AreRefusedByNameElsewhere) {
  EXPECT_NE(refusal("llama", R"(, "rope_theta": Infinity)")
                .find("'rope_theta' must be a finite number, greater than 0, got inf"),
            std::string::npos);
  EXPECT_NE(refusal("llama", R"(, "rms_norm_eps": {"__float__": "NaN"})")
                .find("'rms_norm_eps' must be a finite number, greater than 0, got nan"),
            std::string::npos);
  EXPECT_NE(refusal("llama", R"(, "head_dim": -Infinity)").find("'head_dim' must be"),
            std::string::npos);
}

TEST(Flags, MayBeNumbersInConfigJson) {
  const auto tuned = [](const char* value) {
    return values_of("llama4_text", fmt::format(R"(, "attn_temperature_tuning": {})", value))
        .boolean("attn_temperature_tuning");
  };
  EXPECT_TRUE(tuned("4"));  // Scout
  EXPECT_TRUE(tuned("1"));
  EXPECT_FALSE(tuned("0"));
  EXPECT_NE(refusal("llama4_text", R"(, "attn_temperature_tuning": 0.5)")
                .find("'attn_temperature_tuning' must be true or false, got 0.5"),
            std::string::npos);
  EXPECT_FALSE(values_of("llama", R"(, "attention_bias": 0)").boolean("attention_bias"));
  EXPECT_TRUE(values_of("llama", R"(, "attention_bias": 1)").boolean("attention_bias"));
  EXPECT_NE(refusal("llama", R"(, "attention_bias": 2)")
                .find("'attention_bias' must be true or false, got 2"),
            std::string::npos);
}

TEST(WholeNumbers, MayHaveAPointInConfigJson) {
  EXPECT_EQ(
      values_of("gemma2", R"(, "query_pre_attn_scalar": 144.0)").integer("query_pre_attn_scalar"),
      144);
  EXPECT_NE(refusal("gemma2", R"(, "query_pre_attn_scalar": 144.5)").find("query_pre_attn_scalar"),
            std::string::npos);
}

TEST(Activations, FirstGemmaReadsHiddenAct) {
  EXPECT_EQ(values_of("gemma", R"(, "hidden_activation": "silu")").string("hidden_act"),
            "gelu_pytorch_tanh");
  EXPECT_EQ(values_of("gemma", R"(, "hidden_act": "silu", "hidden_activation": null)")
                .string("hidden_act"),
            "silu");
  EXPECT_EQ(values_of("gemma2", R"(, "hidden_act": "silu", "hidden_activation": "gelu")")
                .string("hidden_activation"),
            "gelu");
}

TEST(UnknownModels, AreNamedByTheirLanguageModel) {
  const std::string error = [] {
    try {
      configure(R"({"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"],
                    "text_config": {"model_type": "ministral3"}})");
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  }();
  EXPECT_NE(error.find("the language model of model_type 'ministral3' in its text_config"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace lamina::registry
