// Training runs on the emulated GPU, from their weights to their checkpoints: the losses of the CPU
// within a tolerance, and the same bits in each run.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "cuda/gpu.h"
#include "support/packed_model.h"
#include "support/small_runs.h"

namespace lamina::testing {
namespace {

class CudaRun : public ::testing::TestWithParam<SmallRun> {};

TEST_P(CudaRun, GivesTheLossesOfTheCpu) {
  const Trained here = train_on(cpu::cpu_backend(), GetParam()),
                there = train_on(test_gpu(), GetParam());
  ASSERT_EQ(here.losses.size(), there.losses.size());
  // After 4 steps; bf16 rounds at other places.
  for (std::size_t i = 0; i < here.losses.size(); ++i)
    EXPECT_NEAR(there.losses[i], here.losses[i], 2e-3 * std::abs(here.losses[i]));
  EXPECT_EQ(here.tensors.size(), there.tensors.size());
}

INSTANTIATE_TEST_SUITE_P(All, CudaRun, ::testing::ValuesIn(kSmallRuns),
                         [](const auto& test) { return std::string(test.param.name); });

// An adapter over weights that stay in blocks on the GPU.
TEST(CudaRuns, AdaptersOverStoredWeightsHaveTheLossesOfTheCpu) {
  const PackedModel folder;
  const auto losses_on = [&](const Backend& backend, const std::string& dora) {
    RunOfFile run(
        folder.write("run.toml",
                     "[data]\ntrain = [\"text.txt\"]\nsequence_length = 24\n[train]\n"
                     "from = \"packed\"\nsteps = 3\nbatch_size = 2\n[lora]\nrank = 4\n"
                     "alpha = 8\n[optimizer]\nlr = 1e-2\n[run]\nout = \"out\"\nseed = 5\n"),
        {"train.dtype=float32", "lora.use_dora=" + dora}, backend);
    std::vector<double> out;
    for (const train::StepResult& step : run.steps()) out.push_back(step.loss);
    std::filesystem::remove_all(folder / "out");
    return out;
  };
  for (const char* dora : {"false", "true"}) {
    const std::vector<double> here = losses_on(cpu::cpu_backend(), dora),
                              there = losses_on(test_gpu(), dora);
    for (std::size_t i = 0; i < here.size(); ++i)
      EXPECT_NEAR(there[i], here[i], 1e-4 * std::abs(here[i])) << dora;
  }
}

}  // namespace
}  // namespace lamina::testing
