// The optimizer against MaxText's: every folder of maxtext named optim_* that is of AdamW. Cases of
// what train has no keys for are skipped, each with its reason.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <string_view>
#include <vector>

#include "backends/cpu/backend.h"
#include "core/json.h"
#include "inspect/verify/case.h"
#include "support/goldens.h"

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

std::vector<std::regex> patterns(JsonValue list) {
  std::vector<std::regex> out;
  for (JsonValue pattern : list.elements()) out.emplace_back(std::string(pattern.as_string()));
  return out;
}

bool matches(const std::vector<std::regex>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const std::regex& pattern) { return std::regex_search(name, pattern); });
}

// The tensors of step 0; without a mask all learn, and all decay.
decoder::ParameterTable parameters_of(const inspect::GoldenCase& golden, JsonValue config) {
  const std::vector<std::regex> trained = patterns(config.at("trainable_parameters_mask")),
                                kept = patterns(config.at("adamw_mask"));
  constexpr std::string_view prefix = "params.0.";
  decoder::ParameterTable out;
  for (std::string_view name : golden.golden.names()) {
    if (!name.starts_with(prefix)) continue;
    decoder::Parameter p;
    p.name = name.substr(prefix.size());
    p.desc.shape = golden.shape(name);
    p.desc.trained = trained.empty() || matches(trained, p.name);
    p.desc.decay = !matches(kept, p.name);
    out.add(std::move(p));
  }
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
  const decoder::ParameterTable parameters = parameters_of(golden, config);
  const Backend& backend = cpu::cpu_backend();
  train::TrainState state(parameters, DType::f32, false, backend);
  train::Optimizer optimizer(parameters,
                             {.beta1 = config.at("adam_b1").as_double(),
                              .beta2 = config.at("adam_b2").as_double(),
                              .eps = config.at("adam_eps").as_double(),
                              .weight_decay = config.at("adam_weight_decay").as_double()},
                             backend);
  const double clip = config.at("gradient_clipping_threshold").as_double();
  const bool all_learn = std::ranges::all_of(
      parameters.all(), [](const decoder::Parameter& p) { return p.desc.trained; });
  std::int64_t steps = 0;
  for (; golden.has(fmt::format("lr.{}", steps)); ++steps) {
    for (std::size_t i = 0; i < parameters.all().size(); ++i) {
      const std::string& name = parameters.all()[i].name;
      const std::vector<float> before = golden.floats(fmt::format("params.{}.{}", steps, name));
      if (steps == 0)
        std::ranges::copy(before, state.masters()[i]);
      else
        expect_near(before, state.masters()[i], name);
      if (parameters.all()[i].desc.trained)
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
