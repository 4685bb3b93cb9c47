// The optimizer against MaxText's: every folder of maxtext named optim_* that is of AdamW. Cases of
// what train has no keys for are skipped, each with its reason.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "backends/cpu/backend.h"
#include "config/run_config.h"
#include "core/json.h"
#include "inspect/verify/case.h"
#include "support/goldens.h"
#include "train/parameter_groups.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

std::string reason_to_skip(JsonValue config) {
  const JsonValue kind = config.find("opt_type");
  if (!kind || kind.as_string() != "adamw") return "is not of AdamW";
  if (config.at("adam_eps_root").as_double() != 0) return "adds to the root's operand";
  if (config.at("skip_step_on_spikes").as_bool()) return "leaves out steps";
  return {};
}

// The keys of a run that say what their configuration says. Their masks are searched for in names;
// without one all learn, and all decay.
config::RunConfig run_of(JsonValue theirs) {
  const auto number = [&](const char* key) { return theirs.at(key).as_double(); };
  std::string groups;
  const auto add = [&](std::string_view part, const std::string& says) {
    groups += fmt::format("{{match = \"*{}*\", {}}}, ", part, says);
  };
  for (JsonValue kept : theirs.at("adamw_mask").elements())
    add(kept.as_string(), "weight_decay = 0");
  const std::string decays = fmt::format("weight_decay = {}", number("adam_weight_decay"));
  for (JsonValue trained : theirs.at("trainable_parameters_mask").elements())
    add(trained.as_string(), decays);
  add("", theirs.at("trainable_parameters_mask").size() > 0 ? "frozen = true" : decays);
  const std::string text = fmt::format(
      "family = \"any\"\n[data]\ntrain = [\"any\"]\n[train]\nclip_norm = {}\n"
      "[optimizer]\nbeta1 = {}\nbeta2 = {}\neps = {}\ngroups = [{}]\n",
      number("gradient_clipping_threshold"), number("adam_b1"), number("adam_b2"),
      number("adam_eps"), groups);
  return config::parse_run(text, "golden");
}

// The tensors of step 0.
decoder::ParameterTable parameters_of(const inspect::GoldenCase& golden,
                                      const config::RunConfig& run) {
  constexpr std::string_view prefix = "params.0.";
  decoder::ParameterTable out;
  for (std::string_view name : golden.golden.names()) {
    if (!name.starts_with(prefix)) continue;
    decoder::Parameter p;
    p.name = name.substr(prefix.size());
    p.desc.shape = golden.shape(name);
    out.add(std::move(p));
  }
  const std::vector<decoder::Learning> learning = train::learning_of(out, run.optimizer.groups);
  for (std::size_t i = 0; i < learning.size(); ++i)
    out.set_learning(static_cast<int>(i), learning[i]);
  return out;
}

void expect_near(const std::vector<float>& want, const float* got, const std::string& name) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-6 * std::max(1.0f, std::abs(want[i]))) << name << ' ' << i;
}

class MaxTextOptimizer : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxTextOptimizer);

TEST_P(MaxTextOptimizer, StepsAsTheReferenceDoes) {
  const JsonDocument document =
      JsonDocument::read((GetParam() / "config.json").string(), {.code = ExitCode::checkpoint});
  const JsonValue config = document.root();
  if (std::string reason = reason_to_skip(config); !reason.empty()) GTEST_SKIP() << reason;
  const inspect::GoldenCase golden(GetParam().string());
  const config::RunConfig run = run_of(config);
  const decoder::ParameterTable parameters = parameters_of(golden, run);
  const Backend& backend = cpu::cpu_backend();
  train::TrainState state(parameters, DType::f32, false, backend);
  train::Optimizer optimizer(parameters, run.optimizer, backend);
  const double clip = run.train.clip_norm;
  const bool all_learn =
      std::ranges::all_of(parameters.all(), [](const decoder::Parameter& p) { return p.learns(); });
  std::int64_t steps = 0;
  for (; golden.has(fmt::format("lr.{}", steps)); ++steps) {
    for (std::size_t i = 0; i < parameters.all().size(); ++i) {
      const std::string& name = parameters.all()[i].name;
      const std::vector<float> before = golden.floats(fmt::format("params.{}.{}", steps, name));
      if (steps == 0)
        std::ranges::copy(before, state.masters()[i]);
      else
        expect_near(before, state.masters()[i], name);
      if (parameters.all()[i].learns())
        std::ranges::copy(golden.floats(fmt::format("grads.{}.{}", steps, name)),
                          static_cast<float*>(state.gradients()[i]));
    }
    const double norm = optimizer.gradient_norm(state);
    if (all_learn) {
      EXPECT_NEAR(norm, golden.floats(fmt::format("grad_norm.{}", steps))[0], 1e-5 * norm);
    }
    optimizer.update(state, golden.floats(fmt::format("lr.{}", steps))[0],
                     clip > 0 ? std::min(1.0, clip / norm) : 1.0, steps);
  }
  EXPECT_GT(steps, 1);
  for (std::size_t i = 0; i < parameters.all().size(); ++i) {
    const std::string& name = parameters.all()[i].name;
    expect_near(golden.floats(fmt::format("params.{}.{}", steps, name)), state.masters()[i], name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MaxTextOptimizer,
                         ::testing::ValuesIn(golden_folders("maxtext", "config.json", "optim_")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

}  // namespace
}  // namespace lamina::testing
