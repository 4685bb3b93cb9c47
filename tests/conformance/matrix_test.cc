// The mutation matrix: each check has a fault that it finds, and no other check finds it unless the
// matrix says so. A check that passes a wrong plugin is the worst fault of the kit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "backends/cpu/backend.h"
#include "backends/cpu/threads/threads.h"
#include "conformance/process/run_check.h"
#include "conformance/subjects/odd_configs.h"
#include "support/goldens.h"
#include "wrong_cases.h"
#include "wrong_family.h"

namespace lamina::conformance {
namespace {

Compute cpu_compute() {
  return {.backend = &cpu::cpu_backend(),
          .set_threads = [](int count) { cpu::set_threads(count, false); }};
}

// A family as input of the checks.
struct Tried {
  explicit Tried(const WrongFamily& wrong)
      : plugin("none.lamina.so", {.level = wrong.level}, cpu_compute()),
        registered(register_family(wrong.model, wrong.border, wrong.op)),
        subject(plugin, *registered.family, *registered.source,
                derived_models(*registered.family)) {}

  // Returns the checks that find something.
  std::set<std::string> failing(const WrongFamily& wrong) const {
    std::set<std::string> out;
    for (const Check& check : all_checks()) {
      if (!check.of_family || check.level > wrong.level || check.id == "NUM-3") continue;
      if (!wrong.only.empty() && std::ranges::find(wrong.only, check.id) == wrong.only.end())
        continue;
      const Result result = run_check(check, {&subject}, false);
      if (result.outcome == Outcome::fail) out.insert(std::string(check.id));
      if (result.outcome == Outcome::fail)
        std::printf("  %s: %s\n", std::string(check.id).c_str(), result.text.c_str());
    }
    return out;
  }

  PluginSubject plugin;
  Registered registered;
  FamilySubject subject;
};

std::vector<WrongFamily> all_wrong() {
  std::vector<WrongFamily> out = wrong_families();
  for (WrongFamily& family : wrong_borders()) out.push_back(std::move(family));
  for (WrongFamily& family : wrong_numbers()) out.push_back(std::move(family));
  for (WrongFamily& family : wrong_kernels()) out.push_back(std::move(family));
  return out;
}

class Mutation : public ::testing::TestWithParam<WrongFamily> {};

TEST_P(Mutation, IsFoundByTheChecksOfTheMatrixAndNoOther) {
  const WrongFamily& wrong = GetParam();
  std::set<std::string> expected;
  for (const std::string_view id : wrong.caught_by) expected.emplace(id);
  EXPECT_EQ(Tried(wrong).failing(wrong), expected) << wrong.fault;
}

INSTANTIATE_TEST_SUITE_P(All, Mutation, ::testing::ValuesIn(all_wrong()), [](const auto& test) {
  return testing::test_name(std::string(test.param.fault));
});

TEST(RightFamily, PassesEveryCheck) {
  const WrongFamily right{"none", {}, right_family(), Level::full};
  EXPECT_EQ(Tried(right).failing(right), std::set<std::string>());
}

TEST(RightFamily, ThatDrawsPassesEveryCheck) {
  const WrongFamily right{"none", {}, family_that_draws(), Level::full};
  EXPECT_EQ(Tried(right).failing(right), std::set<std::string>());
}

TEST(RightFamily, WithKernelsPassesEveryCheck) {
  for (const WrongFamily& right : right_kernels())
    EXPECT_EQ(Tried(right).failing(right), std::set<std::string>()) << right.fault;
}

// The last layer has the parameters of the first, so it cannot be a prediction layer.
TEST(RightFamily, ThatRefusesPredictionNeedsNoModelWithIt) {
  Model model = right_family();
  model.mtp = nullptr;
  model.plan = [](const Config& c) -> sdk::Plan {
    sdk::Plan out = sdk::prefix("own", sdk::unit(1), c.num_hidden_layers > 0 ? 1 : 0);
    if (c.num_hidden_layers < 2) return out;
    sdk::Unit again = sdk::unit(1);
    again.front().params_of = 0;
    out.push_back({.name = "again", .unit = again, .times = c.num_hidden_layers - 1});
    return out;
  };
  const WrongFamily right{"none", {}, model, Level::quick};
  EXPECT_EQ(Tried(right).failing(right), std::set<std::string>());
}

TEST(RightFamily, WithSixteenLearnedPositionsPassesEveryCheck) {
  Model model = right_family();
  model.weights = nullptr;
  model.embed = [](const Config&) {
    return sdk::Embed{.positions = LAMINA_POSITIONS_LEARNED, .max_positions = 16};
  };
  const WrongFamily right{"none", {}, model, Level::full};
  EXPECT_EQ(Tried(right).failing(right), std::set<std::string>());
}

// Gradients are compared in float64, a type that no run uses and that a plugin need not support.
void expect_no_comparison(const Model& model, const std::string& why) {
  const WrongFamily right{"none", {}, model, Level::full};
  const Tried tried(right);
  EXPECT_EQ(tried.failing(right), std::set<std::string>());
  const Result gradients = run_check(*find_check("GRD-1"), {&tried.subject}, false);
  EXPECT_EQ(gradients.outcome, Outcome::skip);
  EXPECT_NE(gradients.text.find(why), std::string::npos) << gradients.text;
}

sdk::Tensor gain_in_float32(sdk::Scope s, const Config& c) {
  return s.param("gain", {c.hidden_size},
                 {.axes = {sdk::axis::norm},
                  .role = sdk::Role::norm,
                  .init = sdk::init::ones,
                  .dtype = LAMINA_DTYPE_F32});
}

TEST(RightFamily, WithAParameterInFloat32PassesEveryCheck) {
  Model model = right_family();
  model.weights = nullptr;
  model.blocks = LAMINA_WRONG_BLOCK({
    const sdk::Tensor gain = gain_in_float32(s, c);
    return right_block(s, c, sdk::cast_like(sdk::widen(x) * gain, x), step);
  });
  expect_no_comparison(model, "its blocks do not build in float64");
}

TEST(RightFamily, ThatCastsToFloat32PassesEveryCheck) {
  Model model = right_family();
  model.weights = nullptr;
  model.blocks = LAMINA_WRONG_BLOCK({
    const sdk::Tensor gain = gain_in_float32(s, c);
    return right_block(s, c, sdk::cast_like(sdk::cast(x, "f32") * gain, x), step);
  });
  expect_no_comparison(model, "its blocks round float64, the compute type of this check, to f32 (");
}

// One of four experts for each token, of as large an effect as the layer itself, by hand.
sdk::Tensor one_expert(sdk::Scope s, const Config& c, sdk::Tensor x_BTD) {
  constexpr std::int64_t kExperts = 4;
  const auto best = sdk::top_k(sdk::linear(s / "router", x_BTD, kExperts), {.k = 1});
  const sdk::Tensor weights_BTE = sdk::scatter_along(sdk::sigmoid(best[0]), best[1], kExperts);
  sdk::Tensor out_BTD;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    const sdk::Tensor expert_BTD =
        sdk::linear(s / ("expert_" + std::to_string(e)), x_BTD, c.hidden_size, {.init_std = 1});
    const sdk::Tensor weighted_BTD =
        expert_BTD * sdk::slice(weights_BTE, {.dim = 2, .start = e, .size = 1});
    out_BTD = e == 0 ? weighted_BTD : out_BTD + weighted_BTD;
  }
  return out_BTD;
}

// If rounding changes a choice, a token is far from float32 and still right.
TEST(RightFamily, WhoseTokensChooseExpertsIsNearFloat32WithEverySeed) {
  Model model = right_family();
  model.weights = nullptr;
  model.blocks =
      LAMINA_WRONG_BLOCK({ return right_block(s, c, x, step) + one_expert(s / "experts", c, x); });
  const Registered registered = register_family(model);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const PluginSubject plugin("none.lamina.so", {.level = Level::full, .seed = seed},
                               cpu_compute());
    const FamilySubject subject(plugin, *registered.family, *registered.source,
                                derived_models(*registered.family));
    const Result result = run_check(*find_check("NUM-1"), {&subject}, false);
    EXPECT_EQ(result.outcome, Outcome::pass) << "seed " << seed << ": " << result.text;
  }
}

// An expert with a capacity drops tokens because of other tokens, which the rules exempt.
TEST(RightFamily, WithCapacitiesOfExpertsIsNotComparedBesideOtherRows) {
  Model model = right_family();
  model.weights = nullptr;
  model.blocks = LAMINA_WRONG_BLOCK({
    return right_block(s, c, x, step) +
           sdk::mixture(s / "moe", x, step,
                        {.router = {.experts = 4, .per_token = 2},
                         .experts = {.width = 8, .capacity_factor = 0.5}});
  });
  const Tried tried(WrongFamily{"none", {}, model, Level::full});
  for (const char* id : {"EQV-1", "EQV-2", "EQV-7"}) {
    const Result result = run_check(*find_check(id), {&tried.subject}, false);
    EXPECT_EQ(result.outcome, Outcome::skip) << id << ": " << result.text;
    EXPECT_EQ(result.text,
              "its experts have capacities (capacity_factor), for which the tokens of a call "
              "compete");
  }
}

// A loss of a router with one expert is constant; another loss without a gradient is a fault.
TEST(RightFamily, WithOneExpertNeedsNoGradientOfItsBalance) {
  Model model = right_family();
  model.weights = nullptr;
  model.keys = [](sdk::Schema<Config>& key) {
    sdk::standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
    key("noise", &Config::noise, {.fallback = 0.5, .min = 0, .max = 1, .doc = "A weight."});
  };
  model.blocks = LAMINA_WRONG_BLOCK({
    return right_block(s, c, x, step) + sdk::mixture(s / "moe", x, step,
                                                     {.router = {.experts = 1, .per_token = 1},
                                                      .experts = {.width = 8},
                                                      .losses = {.mean_key = "noise"}});
  });
  const Tried right(WrongFamily{"none", {}, model, Level::quick});
  const Result accepted = run_check(*find_check("GRD-2"), {&right.subject}, false);
  EXPECT_EQ(accepted.outcome, Outcome::pass) << accepted.text;
  model.blocks = LAMINA_WRONG_BLOCK({
    const sdk::Tensor y = sdk::mixture(
        s / "moe", x, step, {.router = {.experts = 1, .per_token = 1}, .experts = {.width = 8}});
    step.loss(
        "cut_off",
        sdk::counted_mean(sdk::reduce_mean(sdk::square(sdk::stop_gradient(y)), {.dims = {2}})),
        {.weight_key = "noise", .mean = true});
    return right_block(s, c, x, step) + y;
  });
  const Tried wrong(WrongFamily{"none", {}, model, Level::quick});
  const Result found = run_check(*find_check("GRD-2"), {&wrong.subject}, false);
  EXPECT_EQ(found.outcome, Outcome::fail);
  EXPECT_NE(found.text.find("no parameter has a gradient of auxiliary loss 'cut_off'"),
            std::string::npos)
      << found.text;
}

// Without the flag, which asks for it, documents do not see each other.
TEST(RightFamily, WithAFlagThatJoinsDocumentsIsComparedWithoutIt) {
  Model model = right_family();
  model.weights = nullptr;
  model.keys = [](sdk::Schema<Config>& key) {
    sdk::standard_keys(key, {.max_position_embeddings = 64, .rope = {.theta = 100}});
    key("flag", &Config::flag, {.fallback = false, .doc = "Documents see each other."});
  };
  model.blocks = LAMINA_WRONG_BLOCK({
    const sdk::Tensor w = s.param("taps", {c.hidden_size, 2},
                                  {.axes = {sdk::axis::conv, sdk::axis::none},
                                   .role = sdk::Role::conv,
                                   .init = sdk::init::normal(0.5)});
    return right_block(s, c, x + step.causal_conv1d(x, w, {}, {.across = c.flag}), step);
  });
  const Registered registered = register_family(model);
  SmallModels models = derived_models(*registered.family);
  for (SmallModel& small : models.models) small.source = with_value(small.source, "flag", true);
  const PluginSubject plugin("none.lamina.so", {.level = Level::full}, cpu_compute());
  const FamilySubject subject(plugin, *registered.family, *registered.source, models);
  for (const char* id : {"EQV-1", "EQV-2"}) {
    const Result result = run_check(*find_check(id), {&subject}, false);
    EXPECT_EQ(result.outcome, Outcome::pass) << id << ": " << result.text;
  }
}

TEST(WrongFamily, ThatRunsOutOfMemoryInABuildIsNamedWithTheBlock) {
  Model model = right_family();
  model.blocks = LAMINA_WRONG_BLOCK({
    const std::vector<char> all(std::size_t{1} << 48);
    return right_block(s, c, sdk::scale(x, all.back() + 1.0), step);
  });
  const WrongFamily wrong{"none", {}, model, Level::quick};
  const Tried tried(wrong);
  const Result result = run_check(*find_check("TRC-2"), {&tried.subject}, false);
  EXPECT_EQ(result.outcome, Outcome::fail);
  EXPECT_NE(result.text.find("block 'layer'"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("memory"), std::string::npos) << result.text;
}

// One check reports a model that does not open.
TEST(WrongFamily, ThatNoHostOpensIsNoFaultOfOlderHosts) {
  Model model = right_family();
  model.weights = nullptr;
  model.blocks = LAMINA_WRONG_BLOCK({ return sdk::concat({right_block(s, c, x, step), x}, 2); });
  const WrongFamily wrong{"none", {}, model, Level::full};
  const Tried tried(wrong);
  const Result result = run_check(*find_check("ABI-4"), {&tried.subject}, false);
  EXPECT_EQ(result.outcome, Outcome::skip) << result.text;
  EXPECT_NE(result.text.find("see TRC-2"), std::string::npos) << result.text;
}

class WrongNumbers : public ::testing::TestWithParam<WrongCase> {};

TEST_P(WrongNumbers, AreFoundByEveryComparisonOfTheCheck) {
  const WrongCase& wrong = GetParam();
  const WrongFamily right{"none", {}, right_family(), Level::full};
  const Tried tried(right);
  for (const auto check : wrong.checks) {
    ModelCase c = tried.subject.cases().front();
    check(c);  // unchanged, nothing is found
    wrong.spoil(c);
    EXPECT_THROW(check(c), Failure) << wrong.fault;
  }
}

INSTANTIATE_TEST_SUITE_P(All, WrongNumbers, ::testing::ValuesIn(wrong_cases()),
                         [](const auto& test) {
                           return testing::test_name(std::string(test.param.fault));
                         });

}  // namespace
}  // namespace lamina::conformance
