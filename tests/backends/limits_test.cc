// The measured limits are of the right order and move the right way.
#include "backends/cpu/device/limits.h"

#include <gtest/gtest.h>

#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/threads.h"

namespace lamina::cpu {
namespace {

// Wide bounds: the machine may be busy with other tests.
TEST(Limits, ReadBandwidthIsThatOfMemory) {
  set_threads(0, false);
  const double bytes_per_second = measure_read_bandwidth(0.01);
  EXPECT_GT(bytes_per_second, 0.5e9);
  EXPECT_LT(bytes_per_second, 1e13);
}

TEST(Limits, WiderInstructionsAreFaster) {
  if (best_isa() < Isa::avx2) GTEST_SKIP() << "this machine has the portable kernels only";
  set_threads(1, false);
  double portable = 0;
  {
    const ScopedIsa scoped(Isa::portable);
    portable = measure_peak_flops(DType::f32, 0.03);
  }
  EXPECT_GT(portable, 0.5e9);
  EXPECT_GT(measure_peak_flops(DType::f32, 0.03), 1.5 * portable);
}

TEST(Limits, Bf16FallsBackToF32WithoutItsInstructions) {
  set_threads(1, false);
  const ScopedIsa scoped(Isa::avx2);
  const double f32 = measure_peak_flops(DType::f32, 0.03);
  EXPECT_NEAR(measure_peak_flops(DType::bf16, 0.03) / f32, 1.0, 0.5);
}

}  // namespace
}  // namespace lamina::cpu
