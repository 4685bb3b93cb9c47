// Training runs on the emulated GPU, from their weights to their checkpoints: the losses of the CPU
// within a tolerance, and the same bits in each run.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "cuda/gpu.h"
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

}  // namespace
}  // namespace lamina::testing
