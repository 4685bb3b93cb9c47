// Auxiliary losses, metrics and updates of layers in a training step, and multi-token prediction.
// The model is features_losses.toml of the plugin `features`.
#include "train/metrics/aux_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/cpu/backend.h"
#include "decoder/mtp/mtp_labels.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

const TestModel& kFrom = test_model("features_losses");

decoder::GraphFeatures with_metrics(bool layer_metrics) {
  decoder::GraphFeatures out = train::all_losses();
  out.layer_metrics = layer_metrics;
  return out;
}

struct AuxValues : ::testing::Test {
  AuxValues() : model(open_model(kFrom.path)), state(load_state(kFrom, model, DType::f32, true)) {}

  train::StepResult gradients(const Rows& rows, std::int64_t microbatches = 1) {
    make(rows, microbatches);
    return step->gradients(batches, 0);
  }
  void make(const Rows& rows, std::int64_t microbatches) {
    std::int64_t per_batch = rows.batch / microbatches;
    batches.clear();
    for (std::int64_t m = 0; m < microbatches; ++m)
      batches.push_back(rows.microbatch(m * per_batch));
    step.emplace(model, *state,
                 train::TrainStepOptions{.shape = {per_batch, rows.tokens},
                                         .features = with_metrics(layer_metrics),
                                         .microbatches = microbatches},
                 config::OptimizerSection{}, cpu::cpu_backend());
  }
  static double named(const train::StepResult& result, const std::string& name) {
    for (const train::AuxScalar& number : result.aux_scalars)
      if (number.name == name) return number.value;
    ADD_FAILURE() << "no number '" << name << "'";
    return 0;
  }

  decoder::Model model;
  std::unique_ptr<train::TrainState> state;
  std::optional<train::TrainStep> step;
  std::vector<program::Microbatch> batches;
  bool layer_metrics = false;
};

TEST_F(AuxValues, TheTotalIsTheSumOfItsParts) {
  train::StepResult result = gradients(random_rows(model, 2, 12));
  EXPECT_GT(result.mean_of("mtp_loss"), 1);
  EXPECT_NEAR(result.mean_of("aux_loss"),
              0.5 * named(result, "balance") + 0.25 * named(result, "pooled"), 1e-6);
  EXPECT_DOUBLE_EQ(result.total,
                   result.loss + result.mean_of("aux_loss") + result.mean_of("mtp_loss"));
  std::set<std::string> metrics;
  for (const train::AuxScalar& number : result.aux_scalars) metrics.insert(number.name);
  EXPECT_TRUE(metrics.contains("mean_square/layer_000/mean"));
  EXPECT_TRUE(metrics.contains("mean_square/layer_004/max"));
}

// A step along the gradient changes the total by the gradient's length.
TEST_F(AuxValues, GradientsEqualTheSlopeOfTheTotal) {
  Rows rows = random_rows(model, 2, 12);
  gradients(rows);
  auto grads = copy_of(model, state->gradients());
  double norm = 0;
  for (const auto& g : grads)
    for (float x : g) norm += static_cast<double>(x) * static_cast<double>(x);
  norm = std::sqrt(norm);
  auto moved = [&](double by) {
    for (std::size_t i = 0; i < grads.size(); ++i)
      for (std::size_t k = 0; k < grads[i].size(); ++k)
        floats(state->masters()[i])[k] += static_cast<float>(by * grads[i][k] / norm);
    return step->gradients(batches, 0).total;
  };
  const double h = 2e-3;
  double up = moved(h), down = moved(-2 * h);
  EXPECT_NEAR((up - down) / (2 * h), norm, 1e-2 * norm);
}

TEST_F(AuxValues, UpdatesMoveTheirParametersByTheSignOfTheMeanOverMicrobatches) {
  Rows rows = random_rows(model, 4, 8);
  make(rows, 2);
  auto before = copy_of(model, state->masters());
  step->run(batches, 0, 0);
  auto after = copy_of(model, state->masters());
  std::size_t changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    bool is_bias = model.parameters().all()[i].desc.name == "bias";
    for (std::size_t k = 0; k < before[i].size(); ++k) {
      EXPECT_EQ(std::abs(after[i][k] - before[i][k]), is_bias ? 0.125F : 0.0F)
          << model.parameters().all()[i].name;
      changed += after[i][k] != before[i][k];
    }
  }
  EXPECT_EQ(changed, 5u * 24u);
}

// The statistics are computed from each layer's output; a loss is the mean over its layers.
TEST_F(AuxValues, MetricsOfLayersAreThereOnRequest) {
  Rows rows = random_rows(model, 2, 12);
  for (const train::AuxScalar& number : gradients(rows).aux_scalars)
    EXPECT_FALSE(number.name.starts_with("activation_") || number.name == "balance/layer_000")
        << number.name;
  layer_metrics = true;
  train::StepResult result = gradients(rows);
  const std::vector<float> last = forward_with_hidden(model, state->used(), rows).hidden.back();
  double sum = 0, squares = 0;
  for (float x : last) sum += static_cast<double>(x);
  const double mean = sum / static_cast<double>(last.size());
  for (float x : last) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
  EXPECT_NEAR(named(result, "activation_mean/layer_004"), mean, 1e-5);
  EXPECT_NEAR(named(result, "activation_stdev/layer_004"),
              std::sqrt(squares / static_cast<double>(last.size())), 1e-4);
  EXPECT_EQ(named(result, "activation_zeros/layer_004"), 0);
  double balance = 0;
  int layers = 0;
  for (const train::AuxScalar& number : result.aux_scalars)
    if (number.name.starts_with("balance/layer_")) balance += number.value, ++layers;
  EXPECT_GE(layers, 5);
  EXPECT_NEAR(balance / layers, named(result, "balance"), 1e-5);
}

TEST_F(AuxValues, ScannedAndUnrolledReportTheSame) {
  Rows rows = random_rows(model, 2, 12);
  layer_metrics = true;
  train::StepResult scanned = gradients(rows);
  decoder::Model other = open_model(kFrom.path, false);
  train::StepResult unrolled =
      train::TrainStep(other, *state, {.shape = {2, 12}, .features = with_metrics(true)}, {},
                       cpu::cpu_backend())
          .gradients(batches, 0);
  ASSERT_EQ(scanned.aux_scalars.size(), unrolled.aux_scalars.size());
  for (const train::AuxScalar& number : unrolled.aux_scalars)
    EXPECT_NEAR(named(scanned, number.name), number.value, 1e-5 * std::abs(number.value) + 1e-7)
        << number.name;
}

// One step's change of the biases that balance a model's experts, and the tokens per expert from
// the metrics.
struct Balance {
  std::vector<float> moves;
  std::vector<double> expert_tokens;
};
Balance balance_of(const std::string& model_name, const std::string& keys, const Rows& rows) {
  const TestModel& from = test_model(model_name);
  const decoder::Model model = open_changed(from, "router_bias_update_rate = 0.125\n" + keys);
  const auto state = load_state(from, model);
  const auto before = copy_of(model, state->masters());
  train::TrainStep step(model, *state, {.shape = {rows.batch, rows.tokens}}, {},
                        cpu::cpu_backend());
  const program::Microbatch batch = rows.microbatch();
  const train::StepResult result = step.run({&batch, 1}, 0, 0);
  Balance out;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (model.parameters().all()[i].name.ends_with("router.correction_bias"))
      for (std::size_t e = 0; e < before[i].size(); ++e)
        out.moves.push_back(floats(state->masters()[i])[e] - before[i][e]);
  for (const train::AuxScalar& number : result.aux_scalars)
    if (number.name.starts_with("expert_tokens/")) out.expert_tokens.push_back(number.value);
  return out;
}

class RouterBalance : public ::testing::TestWithParam<const char*> {
 protected:
  RouterBalance()
      : rows(random_rows(open_model(test_model(GetParam()).path), 1, kTokens)),
        padded(pack({rows}, 4 * kTokens)) {}

  static constexpr std::int64_t kTokens = 10;
  const Rows rows, padded;
};

TEST_P(RouterBalance, PaddingMovesNoBias) {
  const Balance want = balance_of(GetParam(), "", rows), got = balance_of(GetParam(), "", padded);
  EXPECT_GT(std::ranges::count(want.moves, 0.125F), 0);
  EXPECT_GT(std::ranges::count(want.moves, -0.125F), 0);
  EXPECT_EQ(got.moves, want.moves);
}

TEST_P(RouterBalance, TheMetricOfExpertTokensCountsNoPadding) {
  const Balance want = balance_of(GetParam(), "", rows), got = balance_of(GetParam(), "", padded);
  EXPECT_FALSE(want.expert_tokens.empty());
  EXPECT_EQ(got.expert_tokens, want.expert_tokens);
}

TEST_P(RouterBalance, AKeyCountsPaddingAsMaxTextDoes) {
  const std::string key = "router_bias_counts_padding = true\n";
  EXPECT_EQ(balance_of(GetParam(), key, rows).moves, balance_of(GetParam(), "", rows).moves);
  EXPECT_NE(balance_of(GetParam(), key, padded).moves, balance_of(GetParam(), "", padded).moves);
}

INSTANTIATE_TEST_SUITE_P(Families, RouterBalance,
                         ::testing::Values("deepseek_streams", "deepseek4_sparse"),
                         [](const auto& test) { return std::string(test.param); });

// Block j at token t counts the label of token t + 1 + j if it is in the document of t; chained
// blocks require it for each step.
TEST(MtpLabels, EqualTheLabelsCountedByTheBlocks) {
  const std::int32_t labels[] = {3, 5, 8, 7, 2, 9, 4, 1, 1, -100};
  const std::int32_t segments[] = {1, 1, 1, 2, 2, 0, 0, 1, 1, 1};
  auto count = [&](std::int64_t depth, bool packed, bool chained) {
    return decoder::count_mtp_labels(labels, packed ? segments : nullptr, 2, 5, depth, chained);
  };
  EXPECT_EQ(count(1, true, false), 3 + 1);
  EXPECT_EQ(count(1, true, true), 3 + 1);
  EXPECT_EQ(count(2, true, false), 3 + 1 + 1);
  EXPECT_EQ(count(2, true, true), 3 + 1 + 2 + 1);  // also across the border between 1 and 2
  EXPECT_EQ(count(2, false, false), 4 + 3 + 3 + 2);
  EXPECT_EQ(count(9, false, false), 4 + 3 + 2 + 1 + 3 + 2 + 1);
}

}  // namespace
}  // namespace lamina::testing
