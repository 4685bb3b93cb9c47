// A stage of training without the head: the first stage of an indexer, over tokens and over
// entries.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "backends/cpu/backend.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "train/loop/eval_step.h"
#include "train/optimizer/parameter_groups.h"

namespace lamina::testing {
namespace {

struct WarmUp {
  explicit WarmUp(const char* model) {
    std::ifstream sparse(test_model(model).path);
    const std::string text{std::istreambuf_iterator<char>(sparse), {}};
    from = {"warm-up", folder.write("model.toml", text + "indexer_loss_weight = 0.5\n"
                                                         "indexer_sparse_training = false\n")};
  }
  // Layers that predict further tokens do not run if no token is predicted.
  static bool is_learned(const std::string& name) {
    return name.find(".indexer.") != name.npos && !name.starts_with("mtp.");
  }

  TempDir folder;
  TestModel from;
};

class IndexerWarmUp : public ::testing::TestWithParam<const char*> {};

TEST_P(IndexerWarmUp, OnlyTheIndexerHasGradients) {
  const WarmUp w(GetParam());
  const decoder::Model model = open_model(w.from.path);
  const auto state = load_state(w.from, model);
  const Rows rows = random_rows(model, 2, 14);
  train::TrainStep step(model, *state, {.shape = {2, 14}}, {}, cpu::cpu_backend());
  const std::vector<program::Microbatch> batches{rows.microbatch()};
  const train::StepResult result = step.gradients(batches, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_GT(result.mean_of("aux_loss"), 0);
  EXPECT_EQ(result.total, result.mean_of("aux_loss"));
  const auto gradients = copy_of(model, state->gradients());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = model.parameters().all()[i].name;
    const bool learns = std::ranges::any_of(gradients[i], [](float g) { return g != 0; });
    EXPECT_EQ(learns, WarmUp::is_learned(name)) << name;
  }
  train::EvalStep validation(model, 2, 14, DType::f32, false, cpu::cpu_backend());
  EXPECT_GT(validation.run(batches[0], state->used()).loss, 1);
}

// Nor do weight decay and the updates of expert biases change other values.
TEST_P(IndexerWarmUp, ChangesNothingButTheIndexer) {
  const WarmUp w(GetParam());
  decoder::Model model = open_model(w.from.path);
  const config::OptimizerSection optimizer{.weight_decay = 0.5};
  train::set_learning(model, optimizer, {2, 14});
  const auto state = load_state(w.from, model);
  const auto before = copy_of(model, state->masters());
  train::TrainStep step(model, *state, {.shape = {2, 14}}, optimizer, cpu::cpu_backend());
  for (int s = 0; s < 3; ++s) {
    const Rows rows = random_rows(model, 2, 14, static_cast<unsigned>(s) + 1);
    const program::Microbatch batch = rows.microbatch();
    step.run({&batch, 1}, 1e-2, s);
  }
  const auto after = copy_of(model, state->masters());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::string& name = model.parameters().all()[i].name;
    EXPECT_EQ(same_bits(before[i], after[i]), !WarmUp::is_learned(name)) << name;
    EXPECT_EQ(floats(state->first_moments()[i]) != nullptr, WarmUp::is_learned(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, IndexerWarmUp,
                         ::testing::Values("deepseek_sparse", "deepseek4_few_entries"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lamina::testing
