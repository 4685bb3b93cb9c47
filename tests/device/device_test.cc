#include "device/device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"

namespace lamina::device {
namespace {

TEST(Device, Example) {
  const Device& cpu = open("cpu");
  EXPECT_EQ(cpu.name(), "cpu");
  EXPECT_EQ(cpu.backend().name(), "cpu");
  EXPECT_TRUE(cpu.backend().reaches(MemoryKind::mapped));
}

TEST(Device, TheCpuIsTheFirst) { EXPECT_EQ(names().front(), "cpu"); }

TEST(Device, AutoIsAGpuOrSaysWhyItIsNot) {
  const bool is_cpu = open("auto").name() == "cpu";
  EXPECT_EQ(is_cpu, !why_cpu().empty());
}

TEST(Device, AGpuThatCannotBeUsedIsTheMistakeOfTheOption) {
  EXPECT_ERROR_SAYS(open("cuda:987"), ExitCode::usage, "--device: cuda:987 cannot be used: ");
}

TEST(Device, NameOfAnotherFormIsAUsersError) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cpu:0", "CUDA", "cuda:00", "cuda:01"})
    EXPECT_ERROR_SAYS(open(name), ExitCode::usage,
                      "--device: got '" + std::string(name) +
                          "'; expected auto, cpu, cuda or cuda:N, where N counts from 0, "
                          "without leading zeros");
}

TEST(Device, MemoryOfTheHostIsReadInPlace) {
  const std::vector<float> values = {1, 2, 3};
  const ConstTensorRef tensor = host_tensor(std::span(values));
  EXPECT_EQ(host_view<float>(tensor).data(), values.data());
}

}  // namespace
}  // namespace lamina::device
