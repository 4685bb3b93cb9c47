// A stage of training in which the head takes no part: the first of DeepSeek V3.2's indexer.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "backends/cpu/backend.h"
#include "support/models.h"
#include "support/paths.h"
#include "support/temp_dir.h"
#include "train/eval_step.h"

namespace lamina::testing {
namespace {

TEST(IndexerWarmUp, OnlyTheIndexerLearns) {
  std::ifstream sparse(test_model("deepseek_sparse").path);
  const std::string text{std::istreambuf_iterator<char>(sparse), {}};
  TempDir folder;
  const TestModel from{"warm-up",
                       folder.write("model.toml", text + "indexer_loss_weight = 0.5\n"
                                                         "indexer_sparse_training = false\n")};
  const decoder::Model model = open_model(from.path);
  const auto state = load_state(from, model);
  const Rows rows = random_rows(model, 2, 14);
  train::TrainStep step(model, *state, {.shape = {2, 14}}, {}, cpu::cpu_backend());
  const std::vector<program::Microbatch> batches{rows.microbatch()};
  const train::StepResult result = step.gradients(batches, 0);
  EXPECT_EQ(result.loss, 0);
  EXPECT_GT(result.aux_loss, 0);
  EXPECT_EQ(result.total, result.aux_loss);
  const auto gradients = copy_of(model, state->gradients());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = model.parameters().all()[i].name;
    const bool learns = std::ranges::any_of(gradients[i], [](float g) { return g != 0; });
    // Layers that predict further tokens are not run where no token is predicted.
    EXPECT_EQ(learns, name.find(".indexer.") != name.npos && !name.starts_with("mtp.")) << name;
  }
  train::EvalStep validation(model, 2, 14, DType::f32, false, cpu::cpu_backend());
  EXPECT_GT(validation.run(batches[0], state->used()).loss, 1);
}

}  // namespace
}  // namespace lamina::testing
