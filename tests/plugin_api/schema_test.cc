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
  const std::vector<lamina_key_t> keys = schema.keys();
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

TEST(SdkSchema, AnOptionalFieldIsEmptyWithoutAValueOnly) {
  struct Listed {
    std::optional<std::vector<std::int64_t>> layers;
  };
  Schema<Listed> key;
  key("layers", &Listed::layers, {.min = 0, .doc = "layers"});
  EXPECT_EQ(key.keys()[0].type, LAMINA_KIND_INT_LIST);
  RecordingConfig config;
  config.values["layers"] = std::monostate{};
  EXPECT_FALSE(key.read(&config).layers);
  config.values["layers"] = std::vector<std::int64_t>{};
  EXPECT_EQ(key.read(&config).layers, std::vector<std::int64_t>{});
  config.values["layers"] = std::vector<std::int64_t>{2, 5};
  EXPECT_EQ(key.read(&config).layers, (std::vector<std::int64_t>{2, 5}));
}

TEST(SdkSchema, ShortFormsDeclareTypesLimitsAndDefaults) {
  Schema<Config> key;
  key.size("heads", &Config::heads, "query heads");
  key.size("kv_heads", &Config::heads, 4, "key heads");
  key.count("window", &Config::heads, 0, "tokens");
  key.flag("tied", &Config::tied, true, "one table");
  key.factor("scale", &Config::theta, 0.5, "of logits");
  const std::vector<lamina_key_t> keys = key.keys();
  ASSERT_EQ(keys.size(), 5u);
  EXPECT_EQ(keys[0].flags, LAMINA_KEY_REQUIRED);
  EXPECT_EQ(keys[0].min.v.i, 1);
  EXPECT_EQ(keys[1].flags, 0u);
  EXPECT_EQ(keys[1].fallback.v.i, 4);
  EXPECT_EQ(keys[2].min.type, LAMINA_KIND_INT);
  EXPECT_EQ(keys[2].min.v.i, 0);
  EXPECT_EQ(keys[3].type, LAMINA_KIND_BOOL);
  EXPECT_EQ(keys[4].flags, LAMINA_KEY_ABOVE_MIN);
  EXPECT_EQ(keys[4].fallback.v.f, 0.5);
}

TEST(SdkSchema, DefaultsOfAnotherKindDoNotCompile) {
  static_assert(std::is_convertible_v<int, Fallback<std::int64_t>>);
  static_assert(!std::is_convertible_v<double, Fallback<std::int64_t>>);
  static_assert(!std::is_convertible_v<bool, Fallback<std::int64_t>>);
  static_assert(!std::is_convertible_v<std::optional<double>, Fallback<std::int64_t>>);
  static_assert(std::is_convertible_v<int, Fallback<double>>);
  static_assert(!std::is_convertible_v<bool, Fallback<double>>);
  static_assert(!std::is_convertible_v<int, Fallback<bool>>);
  static_assert(std::is_convertible_v<const char*, Fallback<std::string_view>>);
  static_assert(!std::is_convertible_v<int, Fallback<std::string_view>>);
  static_assert(!std::is_convertible_v<double, Fallback<std::vector<double>>>);
}

TEST(SdkSchema, ARenamedKeyIsReadUnderItsOtherName) {
  Schema<Config> key = example();
  key("kv_heads", &Config::heads, {.same_as = "heads", .doc = "key heads"});
  key.rename("heads", "n_heads");
  EXPECT_FALSE(key.declares("heads"));
  EXPECT_EQ(copy(key.keys()[0].name), "n_heads");
  EXPECT_EQ(copy(key.keys().back().same_as), "n_heads");
  key.drop("kv_heads");
  RecordingConfig config;
  for (const char* name : {"rope_theta", "tied", "act", "layers"})
    config.values[name] = std::monostate{};
  config.values["n_heads"] = std::int64_t{6};
  EXPECT_EQ(key.read(&config).heads, 6);
}

TEST(SdkSchema, RenamedKeysHaveTheirFirstNamesToo) {
  Schema<Config> key = example();
  key.rename("heads", "n_heads");
  key.rename("n_heads", "num_heads");
  EXPECT_EQ(key.names()("heads"), "num_heads");
  EXPECT_EQ(key.names()("tied"), "tied");
}

TEST(SdkSchema, KeysThatTheHostReadsAreNotRenamed) {
  Schema<Config> key = example();
  key.size("hidden_size", &Config::heads, "width");
  EXPECT_THROW(key.rename("hidden_size", "n_embd"), Error);
  EXPECT_THROW(key.rename("max_position_embeddings", "n_ctx"), Error);
}

TEST(SdkSchema, AnAddedAliasIsTheLast) {
  Schema<Config> key = example();
  key.alias("rope_theta", "rotary_base");
  const lamina_span_t aliases = key.keys()[1].aliases;
  ASSERT_EQ(aliases.count, 2u);
  EXPECT_EQ(copy(static_cast<const lamina_str_t*>(aliases.ptr)[0]), "rope_parameters.rope_theta");
  EXPECT_EQ(copy(static_cast<const lamina_str_t*>(aliases.ptr)[1]), "rotary_base");
}

TEST(SdkSchema, ADroppedKeyIsNeitherDeclaredNorRead) {
  Schema<Config> key = example();
  key.drop("act");
  EXPECT_FALSE(key.knows("act"));
  RecordingConfig config;
  for (const char* name : {"heads", "rope_theta", "tied", "layers"})
    config.values[name] = std::monostate{};
  EXPECT_EQ(key.read(&config).act, "");
}

TEST(SdkSchema, ChangesOfUndeclaredKeysAreRefused) {
  Schema<Config> key = example();
  EXPECT_THROW(key.drop("hidden_act"), Error);
  EXPECT_THROW(key.rename("use_cache", "cache"), Error);  // it is only ignored
}

TEST(SdkSchema, NestedFieldsAreReached) {
  Schema<Config> key;
  key("theta", nested(&Config::rope, &RopeOptions::theta), {.doc = "base"});
  RecordingConfig config;
  config.values = {{"theta", 5.0}};
  EXPECT_EQ(key.read(&config).rope.theta, 5);
}

TEST(SdkSchema, DerivedValuesHaveTheKindOfTheirArgument) {
  RecordingReply reply;
  const Derived derived(&reply);
  derived.set("act", "gelu");
  derived.set("act_view", std::string_view("gelu"));
  derived.set("heads", 4);
  derived.set("layers", std::int64_t{3});
  derived.set("theta", 0.5);
  derived.set("tied", true);
  EXPECT_EQ(reply.derived, (std::map<std::string, Value>{{"act", std::string("gelu")},
                                                         {"act_view", std::string("gelu")},
                                                         {"heads", std::int64_t{4}},
                                                         {"layers", std::int64_t{3}},
                                                         {"theta", 0.5},
                                                         {"tied", true}}));
}

TEST(SdkSchema, AProblemIsReportedOnce) {
  RecordingReply reply;
  const Problems problem(&reply);
  for (int i = 0; i < 2; ++i) problem("heads", "got ", std::int64_t{3}, "; it must be even");
  problem("heads", "got 3; it must be 4");
  EXPECT_EQ(reply.problems.size(), 2u);
}

TEST(SdkSchema, NoKeyHeadsAreAProblem) {
  StandardConfig c{};
  c.num_attention_heads = 4;
  c.head_dim = 8;
  RecordingReply reply;
  check_heads(c, Problems(&reply));
  EXPECT_EQ(reply.problems,
            (std::vector<std::pair<std::string, std::string>>{
                {"num_key_value_heads", "got 0; it must divide num_attention_heads = 4"}}));
}

TEST(SdkSchema, WithoutTheKeyEveryHeadHasItsOwnKeys) {
  Schema<StandardConfig> keys;
  standard_keys(keys, {});
  keys.drop("num_key_value_heads");
  keys.drop("rope_theta");
  StandardConfig c{};
  c.hidden_size = 32;
  c.num_attention_heads = 4;
  c.head_dim = 8;
  RecordingReply reply;
  validate_of(Model<StandardConfig>{}, keys, c, Problems(&reply));
  EXPECT_TRUE(reply.problems.empty());
  EXPECT_EQ(c.attention_options().kv_heads, 4);
}

TEST(SdkSchema, ValueOfAnotherKindIsRefused) {
  RecordingConfig config;
  config.values["heads"] = 4.0;
  EXPECT_THROW((void)example().read(&config), Error);
}

}  // namespace
}  // namespace lamina::testing
