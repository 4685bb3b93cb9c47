// A family's config functions: values, their sources, plans, and errors.
#include "registry/family.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "registry/model.h"
#include "support/expect_error.h"

namespace lamina::registry {
namespace {

ModelConfig from_json(const std::string& more) {
  const std::string text =
      R"({"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 3, "model_type": "tiny_type")" +
      more + "}";
  return tiny().configure(config::parse_json(text, "config.json", "model."), "config.json");
}

TEST(Family, Example) {
  const ModelConfig config = configured(tiny(), "heads = 2\n");
  EXPECT_EQ(config.vocab_size(), 11);
  EXPECT_EQ(config.num_layers(), 3);
  EXPECT_EQ(config.values().number("norm_eps"), 1e-5);
  const PlanSpec plan = tiny().plan(config);
  ASSERT_EQ(plan.segments.size(), 2u);
  EXPECT_EQ(plan.segments[0].name, "pairs");
  EXPECT_EQ(plan.segments[0].unit[0].overrides, (std::vector<Setting>{{"head_dim", 64}}));
  EXPECT_EQ(plan.num_layers(), 3);
  const OptionsSpec options = tiny().options(config);
  EXPECT_EQ(options.embed.scale, 2);
  EXPECT_EQ(options.embed.positions_init_std, 0.5);
  EXPECT_TRUE(options.head.tied);
  EXPECT_EQ(options.head.norm.op->name, "rms_norm");
  EXPECT_EQ(options.head.norm.initial_weight(), 1);
}

TEST(Family, DerivesValuesAndKeepsThoseThatAreGiven) {
  EXPECT_EQ(configured(tiny(), "heads = 2\n").describe("head_dim"), "head_dim = 4 (derived)");
  EXPECT_EQ(configured(tiny(), "heads = 2\nhead_dim = 16\n").describe("head_dim"),
            "head_dim = 16 (run.toml:6)");
  EXPECT_EQ(configured(tiny(), "heads = 2\n").describe("kv_heads"), "kv_heads = 2 (as heads)");
}

TEST(Family, ValuesAreInTheOrderOfTheirDeclaration) {
  std::string keys;
  const ModelConfig config = configured(tiny(), "heads = 2\n");
  for (const config::Entry& entry : config.values().entries()) keys += entry.key + " ";
  EXPECT_EQ(keys, "vocab_size hidden_size num_hidden_layers heads head_dim kv_heads norm_eps act ");
}

TEST(Family, NullInJsonIsZeroOnlyForKeysThatSaySo) {
  EXPECT_EQ(from_json(R"(, "heads": null)").describe("heads"), "heads = 0 (config.json:1)");
  EXPECT_FALSE(from_json(R"(, "head_dim": null)").values().has("head_dim"));
  EXPECT_EQ(from_json(R"(, "eps": 0.5)").values().number("norm_eps"), 0.5);
}

TEST(Family, MembersOfObjectsInAListAreNamedByTheList) {
  const ModelConfig config = from_json(R"(, "steps": [{"width": 1}, {"width": 2, "kind": "x"}])");
  EXPECT_EQ(config.unread(), std::vector<std::string>{"steps (config.json:1)"});
}

TEST(Family, ListsJsonKeysThatNothingReads) {
  const ModelConfig config = from_json(R"(, "cache": {"x": true}, "mystery": 1)");
  EXPECT_EQ(config.unread(), std::vector<std::string>{"mystery (config.json:1)"});
}

TEST(Family, RefusesValuesWithTheirPlace) {
  EXPECT_USER_ERROR(configured(tiny(), "heads = 3\n"), ExitCode::usage,
                    "run.toml:5: 'heads': got a number that does not divide hidden_size\n"
                    "  hidden_size is given at run.toml:3");
  EXPECT_USER_ERROR(configured(tiny(), "file_only = 3\n"), ExitCode::usage,
                    "run.toml:5: 'model.file_only' is a key of config.json only\n  A number.");
  EXPECT_ERROR_SAYS(configured(tiny(), "hedas = 3\n"), ExitCode::usage,
                    "did you mean 'model.heads'");
  EXPECT_ERROR_SAYS(configured(tiny(), "act = \"tanh\"\n"), ExitCode::usage, "run.toml:5: ");
  EXPECT_USER_ERROR(configured(tiny(), "kinds = [1, 2]\n"), ExitCode::usage,
                    "run.toml:5: 'kinds' must have one element per layer (3), got 2");
  EXPECT_ERROR_SAYS(tiny().configure({}, "run.toml"), ExitCode::usage,
                    "run.toml: missing key 'model.vocab_size'");
}

TEST(Family, KeyOfTheHostsNameIsTheFamilys) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("host_key")}}), "tiny");
  const ModelConfig config = configured(family, "engram_layers = 3\n");
  EXPECT_EQ(config.values().integer("engram_layers"), 3);
  EXPECT_FALSE(config.is_host_key("engram_layers"));
  EXPECT_EQ(family.find_key("engram_head_dim"), nullptr) << "what the host would do is off";
  EXPECT_NE(tiny().find_key("engram_head_dim"), nullptr);
}

TEST(Family, IntegersOfNumberKeysAreNumbers) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("integers")}}), "tiny");
  const ModelConfig config = configured(family, "");
  EXPECT_EQ(config.values().number("weight"), 1.0) << "a default";
  EXPECT_EQ(config.factor("factor"), 2.0) << "a derived value";
  EXPECT_EQ(config.values().number("scale"), 8.0) << "the value of an integer key";
}

TEST(Family, TheValueOfAnotherKeyIsWithinTheKeysLimits) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("same_limit")}}), "tiny");
  EXPECT_EQ(configured(family, "window = 5\n").values().integer("window"), 5);
  EXPECT_USER_ERROR(configured(family, ""), ExitCode::usage,
                    "run.toml: 'window' must be an integer, at least 0 and at most 5, got 8\n"
                    "  its default is hidden_size = 8 (run.toml:3); set it explicitly");
}

TEST(Family, AKeyIsReadAlthoughItsNameIsAlsoIgnored) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("ignored_first")}}), "tiny");
  EXPECT_EQ(configured(family, "window = 3\n").describe("head_dim"), "head_dim = 3 (derived)");
  EXPECT_ERROR_SAYS(configured(family, "fault = 121\n"), ExitCode::plugin,
                    "its 'validate' reads the key 'cache', which the family does not");
}

TEST(Family, PlanThatFailsIsThePluginsFault) {
  EXPECT_ERROR_SAYS(tiny().plan(configured(tiny(), "fault = 100\n")), ExitCode::plugin,
                    "plugin 'org.example.tiny' 1.0, family 'tiny': its 'plan' failed with status 9 "
                    "(internal) and no message");
  EXPECT_ERROR_SAYS(tiny().plan(configured(tiny(), "fault = 102\n")), ExitCode::plugin,
                    "plan: a position is block 9, which the family does not declare");
  EXPECT_ERROR_SAYS(configured(tiny(), "fault = 103\n"), ExitCode::plugin,
                    "its 'validate' reads the key 'undeclared', which the family does not");
}

TEST(Plan, AChangeOfTheEnvironmentIsRefusedAndPutBack) {
  EXPECT_ERROR_SAYS(tiny().plan(configured(tiny(), "fault = 112\n")), ExitCode::plugin,
                    "plugin 'org.example.tiny' 1.0, family 'tiny': its 'plan' changes the "
                    "environment variable 'TINY_PLANS' (C-10 of docs/plugin_requirements.md)");
  EXPECT_EQ(::getenv("TINY_PLANS"), nullptr);
}

TEST(Family, MisusedExtensionsAreThePluginsFault) {
  const auto plan_with = [](int fault) {
    tiny().plan(configured(tiny(), fmt::format("fault = {}\n", fault)));
  };
  const auto options_with = [](int fault) {
    static_cast<void>(tiny().options(configured(tiny(), fmt::format("fault = {}\n", fault))));
  };
  EXPECT_ERROR_SAYS(plan_with(108), ExitCode::plugin,
                    "plan: read_from: no segment was given before");
  EXPECT_ERROR_SAYS(plan_with(109), ExitCode::plugin,
                    "plan: read_from: position 2 does not exist; the segment has 2 positions");
  EXPECT_ERROR_SAYS(plan_with(110), ExitCode::plugin,
                    "plan: read_from: position 1 already reads layer 0");
  EXPECT_ERROR_SAYS(plan_with(115), ExitCode::plugin,
                    "its plan makes layer 0 use the parameters of layer 0; the owner must be an "
                    "earlier layer");
  EXPECT_ERROR_SAYS(plan_with(116), ExitCode::plugin,
                    "plan: params_of: position 1 already uses the parameters of layer 0");
  EXPECT_ERROR_SAYS(plan_with(111), ExitCode::plugin,
                    "'as' is called in 'plan', but belongs to 'options'");
  EXPECT_ERROR_SAYS(options_with(112), ExitCode::plugin,
                    "options: the family of exports is given twice");
  EXPECT_ERROR_SAYS(options_with(113), ExitCode::plugin, "mtp.depth is 65; expected 1 to 64");
  EXPECT_ERROR_SAYS(options_with(114), ExitCode::plugin,
                    "options: multi-token prediction is given twice");
  EXPECT_ERROR_SAYS(options_with(117), ExitCode::plugin,
                    "mtp.flags has both LAMINA_MTP_CARRIES and LAMINA_MTP_NORMED_HIDDEN");
}

TEST(Family, OverrideOfThePlanIsWithinTheKeysLimits) {
  EXPECT_ERROR_SAYS(
      tiny().plan(configured(tiny(), "fault = 105\n")), ExitCode::plugin,
      "plan: overrides a key with an invalid value: 'head_dim' must be an integer, at least 0, got "
      "-1");
  EXPECT_ERROR_SAYS(
      tiny().plan(configured(tiny(), "fault = 106\n")), ExitCode::plugin,
      "plan: overrides 'head_dim' with 1099511627776; expected an integer between -2^31 and");
}

// The host has the key 'logit_scale'; the family does not declare it.
TEST(Family, KeysOfTheHostAreNotForThePlugin) {
  EXPECT_ERROR_SAYS(configured(tiny(), "fault = 119\n"), ExitCode::plugin,
                    "derive: sets the key 'logit_scale', which the family does not declare");
  EXPECT_ERROR_SAYS(tiny().plan(configured(tiny(), "fault = 118\n")), ExitCode::plugin,
                    "plan: sets the key 'logit_scale', which the family does not declare");
  EXPECT_ERROR_SAYS(tiny().options(configured(tiny(), "fault = 120\n")), ExitCode::plugin,
                    "options: mtp.weight_key is 'logit_scale'; expected a declared key of numbers");
}

TEST(Family, DerivedValueIsWithinTheKeysLimits) {
  EXPECT_ERROR_SAYS(configured(tiny(), "heads = 2\nfault = 107\n"), ExitCode::usage,
                    "run.toml: 'head_dim' must be an integer, at least 0, got -5\n"
                    "  family 'tiny' derives it from other keys; set it explicitly");
}

TEST(Family, PlanThatRefusesTheConfigIsTheUsersFault) {
  EXPECT_ERROR_SAYS(tiny().plan(configured(tiny(), "fault = 101\n")), ExitCode::usage,
                    "run.toml: 5 layers are too odd\n  plugins/tiny/model.c:");
}

TEST(MemoryFaults, APlanWithoutMemoryIsNoFaultOfThePlugin) {
  EXPECT_THROW(tiny().plan(configured(tiny(), "fault = 104\n")), std::bad_alloc);
}

TEST(Family, ExceptionThatLeavesThePluginIsNamed) {
  const Family& family = load_family(Catalog::scan({.files = {zoo("throwing")}}), "throwing");
  EXPECT_ERROR_SAYS(family.plan(configured(family)), ExitCode::plugin,
                    "its 'plan' threw an exception; exceptions must not leave a plugin");
  EXPECT_ERROR_SAYS(family.options(configured(family)), ExitCode::plugin,
                    "its options contain no head, which is required");
}

}  // namespace
}  // namespace lamina::registry
