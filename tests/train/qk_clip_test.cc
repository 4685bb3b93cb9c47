// QK-clip: after a step, logits are at the threshold; without clipping nothing changes.
#include "train/optimizer/qk_clip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/backend.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"
#include "train/loop/train_step.h"
#include "train/optimizer/parameter_groups.h"

namespace lamina::testing {
namespace {

// Steps with learning rate 0, which change only clipped weights.
struct Clipped {
  static constexpr std::int64_t kRows = 2, kTokens = 12;

  const TestModel& from = test_model("deepseek_v2_predicts");
  decoder::Model model = open_model(from.path);
  std::unique_ptr<train::TrainState> state;
  Rows rows = random_rows(model, kRows, kTokens);
  config::OptimizerSection optimizer;
  std::optional<train::TrainStep> step;

  explicit Clipped(config::OptimizerSection section, DType dtype = DType::f32)
      : optimizer(std::move(section)) {
    optimizer.weight_decay = 0;
    train::set_learning(model, optimizer, {kRows, kTokens, dtype});
    state = load_state(from, model, dtype);
    // Large enough to clip: random weights have small logits.
    for (std::size_t i = 0; i < model.parameters().all().size(); ++i) {
      const decoder::Parameter& p = model.parameters().all()[i];
      if (p.desc.name.starts_with("attention.w") && !p.desc.name.starts_with("attention.wo"))
        for (float& v :
             std::span(floats(state->masters()[i]), static_cast<std::size_t>(p.num_elements())))
          v *= 6;
    }
    state->refresh_copies();
    decoder::GraphFeatures features = train::all_losses(false);
    features.max_logits = true;
    step.emplace(model, *state,
                 train::TrainStepOptions{.shape = {kRows, kTokens, dtype}, .features = features},
                 optimizer, cpu::cpu_backend());
  }

  // The largest logit of each layer, before the step clips.
  std::vector<double> run() {
    const program::Microbatch batch = rows.microbatch();
    const train::StepResult result = step->run({&batch, 1}, 0, 0);
    std::vector<double> out;
    for (const train::AuxScalar& scalar : result.aux_scalars)
      if (scalar.name.starts_with("max_logits/") && scalar.name.ends_with("/max"))
        out.push_back(scalar.value);
    return out;
  }
  std::vector<std::vector<float>> weights() const { return copy_of(model, state->masters()); }
};

// Clipping the first layer changes the inputs of later layers, so only the first is exact.
TEST(QkClip, LogitsOfTheFirstLayerComeDownToTheThreshold) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Clipped free({.qk_clip = 1e9}, dtype);
    const double before = free.run().at(0);
    const double threshold = before / 3;
    Clipped clipped({.qk_clip = threshold}, dtype);
    EXPECT_EQ(clipped.run().at(0), before);
    // Heads below the threshold do not change; the largest is at the threshold.
    EXPECT_NEAR(clipped.run().at(0), threshold, (dtype == DType::f32 ? 1e-5 : 0.03) * threshold);
  }
}

TEST(QkClip, AThresholdThatNothingReachesChangesNoBit) {
  Clipped without({}), with({.qk_clip = 1e9});
  without.run();
  with.run();
  EXPECT_EQ(with.weights(), without.weights());
}

TEST(QkClip, OnlyQueriesAndKeysAreScaled) {
  Clipped clipped({.qk_clip = 0.1});
  const auto before = clipped.weights();
  clipped.run();
  const auto after = clipped.weights();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string& name = clipped.model.parameters().all()[i].desc.name;
    const bool scaled = name == "attention.wq.weight" || name == "attention.wq_b.weight" ||
                        name == "attention.wkv_b.weight";
    EXPECT_EQ(before[i] != after[i], scaled) << clipped.model.parameters().all()[i].name;
  }
}

TEST(QkClip, FrozenMatricesStay) {
  Clipped clipped({.qk_clip = 0.1, .groups = {{.match = "*.wkv_b.weight", .frozen = true}}});
  const auto before = clipped.weights();
  clipped.run();
  const auto after = clipped.weights();
  for (std::size_t i = 0; i < before.size(); ++i)
    if (clipped.model.parameters().all()[i].learning.frozen) {
      EXPECT_EQ(before[i], after[i]);
    }
  EXPECT_NE(before, after);
}

TEST(QkClip, AModelWithoutLatentAttentionIsRefused) {
  const TempDir folder;
  folder.write("text.txt", "some words, and some more of them, and more\n");
  const std::string file = folder.write(
      "run.toml",
      "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\n"
      "intermediate_size = 24\nnum_hidden_layers = 1\nnum_attention_heads = 2\n"
      "[data]\ntrain = [\"text.txt\"]\nsequence_length = 8\n[optimizer]\nqk_clip = 100.0\n"
      "[run]\nout = \"out\"\n");
  EXPECT_ERROR_SAYS(RunOfFile{file}, ExitCode::usage,
                    "run.toml:12: optimizer.qk_clip: is for latent attention, which this model "
                    "does not have");
}

}  // namespace
}  // namespace lamina::testing
