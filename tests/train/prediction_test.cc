// Multi-token prediction: published layers compared with the reference; with several residual
// streams, its loss and its gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "backends/cpu/backend.h"
#include "inspect/verify/prediction.h"
#include "inspect/verify/verify.h"
#include "support/models.h"
#include "support/paths.h"

namespace lamina::testing {
namespace {

class StreamsPrediction : public ::testing::TestWithParam<const char*> {
 protected:
  StreamsPrediction()
      : from(test_model(GetParam())),
        model(open_model(from.path)),
        state(load_state(from, model)),
        rows(pack({random_rows(model, 1, 9, 3), random_rows(model, 1, 6, 4)}, 16)) {}

  train::StepResult gradients() {
    train::TrainStep step(model, *state, {.shape = {1, 16}}, {}, cpu::cpu_backend());
    const std::vector<program::Microbatch> batches{rows.microbatch()};
    return step.gradients(batches, 0);
  }

  // -log p of each depth at every label of the same document, from the logits that verify compares.
  double loss_of_logits() const {
    const inspect::Prediction predicted =
        inspect::predict(model, state->used(), rows, DType::f32, cpu::cpu_backend());
    const std::size_t vocab = static_cast<std::size_t>(model.vocab_size()), tokens = 16;
    double sum = 0;
    std::int64_t count = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(model.mtp_depth()); ++j)
      for (std::size_t t = 0; t + 1 + j < tokens; ++t) {
        const std::size_t ahead = t + 1 + j;
        if (rows.segments[t] == 0 || rows.segments[t] != rows.segments[ahead]) continue;
        if (rows.labels[ahead] < 0) continue;
        const float* z = predicted.logits.data() + (j * tokens + t) * vocab;
        double total = 0;
        for (std::size_t v = 0; v < vocab; ++v) total += std::exp(static_cast<double>(z[v]));
        const double own = z[static_cast<std::size_t>(rows.labels[ahead])];
        sum += model.mtp_weight(static_cast<std::int64_t>(j)) * (std::log(total) - own);
        ++count;
      }
    return sum / static_cast<double>(count);
  }

  const TestModel& from;
  decoder::Model model;
  std::unique_ptr<train::TrainState> state;
  Rows rows;
};

TEST_P(StreamsPrediction, LossEqualsItsLogits) {
  const train::StepResult result = gradients();
  EXPECT_GT(result.mean_of("mtp_loss"), 0.1);
  EXPECT_NEAR(result.mean_of("mtp_loss"), loss_of_logits(), 1e-5);
  EXPECT_NEAR(result.total, result.loss + result.mean_of("aux_loss") + result.mean_of("mtp_loss"),
              1e-6);
}

// The layers before it get gradients from it, through all streams.
TEST_P(StreamsPrediction, TeachesTheLayersBefore) {
  gradients();
  const auto with = copy_of(model, state->gradients());
  const decoder::Model without = open_changed(from, "mtp_loss_weight = 0.0\n");
  const auto other = load_state(from, without);
  train::TrainStep step(without, *other, {.shape = {1, 16}}, {}, cpu::cpu_backend());
  const std::vector<program::Microbatch> batches{rows.microbatch()};
  step.gradients(batches, 0);
  const auto alone = copy_of(without, other->gradients());
  for (const char* name : {"layers.0.attention_norm.weight", "layers.1.mhc_ffn.base"}) {
    const auto at = static_cast<std::size_t>(model.parameters().find(name));
    EXPECT_GT(relative_difference(with.at(at), alone.at(at)), 1e-3) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, StreamsPrediction,
                         ::testing::Values("deepseek_streams_predicts", "deepseek4_predicts"),
                         [](const auto& test) { return std::string(test.param); });

// The cases of this tree, also if $LAMINA_GOLDENS is set.
class PublishedPrediction : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedPrediction, AgreesWithTheReference) {
  const std::filesystem::path directory =
      std::filesystem::path(LAMINA_SOURCE_DIR) / "tests" / "golden" / "hf" / GetParam();
  const inspect::VerifyReport report =
      inspect::verify_case(directory.string(), DType::f32, built_plugins(), cpu::cpu_backend());
  std::set<std::string> compared;
  for (const inspect::VerifyRow& row : report.rows) {
    EXPECT_TRUE(row.passed()) << row.quantity << " is off by " << row.error << ", allowed "
                              << row.tolerance;
    compared.insert(row.quantity);
  }
  for (const char* name : {"mtp.logits", "mtp.hidden", "mtp.loss"})
    EXPECT_TRUE(compared.contains(name)) << name;
  EXPECT_TRUE(report.skipped.empty()) << report.skipped.front().quantity;
}

INSTANTIATE_TEST_SUITE_P(All, PublishedPrediction,
                         ::testing::Values("deepseek_v4_mtp", "qwen3_next_mtp", "qwen3_5_moe_mtp"),
                         [](const auto& test) { return std::string(test.param); });

// Experts chosen by a table have no balancing.
TEST(RouterBias, MovesInLayersThatChooseByScore) {
  const TestModel& from = test_model("deepseek4_predicts");
  decoder::Model model = open_model(from.path);
  const auto state = load_state(from, model);
  const auto before = copy_of(model, state->masters());
  train::TrainStep step(model, *state, {.shape = {2, 16}}, {}, cpu::cpu_backend());
  const Rows rows = random_rows(model, 2, 16);
  const program::Microbatch batch = rows.microbatch();
  step.run({&batch, 1}, 0, 0);
  const auto after = copy_of(model, state->masters());
  EXPECT_EQ(model.parameters().find("layers.0.moe.router.correction_bias"), -1);
  for (const char* name :
       {"layers.1.moe.router.correction_bias", "mtp.0.moe.router.correction_bias"}) {
    const auto at = static_cast<std::size_t>(model.parameters().find(name));
    std::size_t moved = 0;
    for (std::size_t e = 0; e < after.at(at).size(); ++e) {
      const float by = std::abs(after[at][e] - before[at][e]);
      if (by == 0) continue;  // an expert with exactly its share
      EXPECT_NEAR(by, 0.01, 1e-6) << name;
      ++moved;
    }
    EXPECT_GT(moved, 0u) << name;
  }
}

}  // namespace
}  // namespace lamina::testing
