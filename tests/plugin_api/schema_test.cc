// Config keys: their form in the C contract, and the values that come back.
#include <gtest/gtest.h>

#include "lamina/sdk.h"
#include "plugin_api/recorder.h"

namespace lamina::testing {
namespace {

using namespace sdk;

struct Config {
  std::int64_t heads = 0;
  double theta = 0;
  bool tied = false;
  std::string_view act;
  std::vector<std::int64_t> layers;
  RopeOptions rope;
};

Schema<Config> example() {
  Schema<Config> key;
  key("heads", &Config::heads, {.required = true, .min = 1, .doc = "query heads"});
  key("rope_theta", [](Config & c) -> auto& { return c.rope.theta; },
      {.fallback = 1e4, .above = 0, .aliases = {"rope_parameters.rope_theta"}});
  key("tied", &Config::tied, {.fallback = true, .flags = LAMINA_KEY_NULL_IS_ZERO});
  key("act", &Config::act,
      {.fallback = "silu", .choices = {"silu", "gelu"}, .hf_name = "hidden_act"});
  key("layers", &Config::layers, {.fallback = std::vector<std::int64_t>{1, 3}, .min = 0});
  key.ignore({"use_cache"});
  return key;
}

TEST(SdkSchema, Example) {
  const Schema<Config> schema = example();
  RecordingConfig config;
  config.values = {{"heads", std::int64_t{4}},
                   {"rope_theta", 5e5},
                   {"tied", true},
                   {"act", std::string("gelu")},
                   {"layers", std::vector<std::int64_t>{2, 5, 7}}};
  const Config c = schema.read(&config);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.rope.theta, 5e5);
  EXPECT_TRUE(c.tied);
  EXPECT_EQ(c.act, "gelu");
  EXPECT_EQ(c.layers, (std::vector<std::int64_t>{2, 5, 7}));
}

TEST(SdkSchema, DeclarationsReachTheHost) {
  const Schema<Config> schema = example();
  const std::vector<lamina_key_t>& keys = schema.keys();
  ASSERT_EQ(keys.size(), 6u);
  EXPECT_EQ(copy(keys[0].name), "heads");
  EXPECT_EQ(keys[0].type, LAMINA_KIND_INT);
  EXPECT_EQ(keys[0].flags, LAMINA_KEY_REQUIRED);
  EXPECT_EQ(keys[0].min.v.i, 1);
  EXPECT_EQ(keys[0].max.type, 0u);
  EXPECT_EQ(copy(keys[0].doc), "query heads");

  EXPECT_EQ(keys[1].flags, LAMINA_KEY_ABOVE_MIN);
  EXPECT_EQ(keys[1].min.type, LAMINA_KIND_FLOAT);
  EXPECT_EQ(keys[1].fallback.v.f, 1e4);
  ASSERT_EQ(keys[1].aliases.count, 1u);
  EXPECT_EQ(copy(*static_cast<const lamina_str_t*>(keys[1].aliases.ptr)),
            "rope_parameters.rope_theta");

  EXPECT_EQ(keys[2].flags, LAMINA_KEY_NULL_IS_ZERO);
  EXPECT_EQ(keys[3].choices.count, 2u);
  EXPECT_EQ(copy(keys[3].hf_name), "hidden_act");
  EXPECT_EQ(copy_value(keys[4].fallback), Value(std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(copy(keys[5].name), "use_cache");
  EXPECT_EQ(keys[5].flags, LAMINA_KEY_IGNORED);
}

TEST(SdkSchema, OwnKeysHaveASeparatePlaceInExports) {
  Schema<Config> key;
  key("heads", &Config::heads, {.own = true, .doc = "heads"});
  ASSERT_EQ(key.keys().size(), 1u);
  EXPECT_EQ(copy(key.keys()[0].hf_name), "lamina.heads");
  ASSERT_EQ(key.keys()[0].aliases.count, 1u);
  EXPECT_EQ(copy(*static_cast<const lamina_str_t*>(key.keys()[0].aliases.ptr)), "lamina.heads");
}

TEST(SdkSchema, KeysWithOneValueRefuseOthers) {
  Schema<Config> key;
  key.only("mlp_bias", false, "there are no biases");
  key.only("scale", 1.0, "scores are not scaled");
  key.only("kind", std::string_view("plain"), "no other is known");
  EXPECT_EQ(key.keys()[0].flags, LAMINA_KEY_HF_ONLY);
  RecordingConfig config;
  config.values = {{"mlp_bias", false}, {"scale", 1.0}, {"kind", std::monostate{}}};
  EXPECT_TRUE(key.refusals(&config).each.empty());
  config.values = {{"mlp_bias", true}, {"scale", 0.5}, {"kind", std::string("odd")}};
  const auto refusals = key.refusals(&config).each;
  ASSERT_EQ(refusals.size(), 3u);
  EXPECT_EQ(refusals[0].key, "mlp_bias");
  EXPECT_EQ(refusals[0].text, "got true; it must be false: there are no biases");
  EXPECT_EQ(refusals[1].text, "got 0.5; it must be 1: scores are not scaled");
  EXPECT_EQ(refusals[2].text, "got \"odd\"; it must be \"plain\": no other is known");
}

TEST(SdkSchema, KeysWithoutAValueLeaveTheFieldAlone) {
  RecordingConfig config;
  for (const char* name : {"heads", "rope_theta", "tied", "act", "layers"})
    config.values[name] = std::monostate{};
  const Config c = example().read(&config);
  EXPECT_EQ(c.heads, 0);
  EXPECT_EQ(c.rope.theta, 10000);
}

TEST(SdkSchema, ValueOfAnotherKindIsRefused) {
  RecordingConfig config;
  config.values["heads"] = 4.0;
  EXPECT_THROW((void)example().read(&config), Error);
}

}  // namespace
}  // namespace lamina::testing
