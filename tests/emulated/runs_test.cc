// Training runs on the emulated device, from their weights to their checkpoints: the same bits as
// on the CPU.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "backends/emulated/backend.h"
#include "support/small_runs.h"

namespace lamina::testing {
namespace {

class EmulatedRun : public ::testing::TestWithParam<SmallRun> {};

TEST_P(EmulatedRun, GivesTheLossesAndCheckpointsOfTheCpu) {
  const Trained here = train_on(cpu::cpu_backend(), GetParam()),
                there = train_on(emulated::emulated_backend(), GetParam());
  EXPECT_EQ(here.losses, there.losses);
  ASSERT_EQ(here.tensors.size(), there.tensors.size());
  for (const auto& [name, bytes] : here.tensors) EXPECT_EQ(bytes, there.tensors.at(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedRun, ::testing::ValuesIn(kSmallRuns),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lamina::testing
