// The measured limits are plausible numbers. Their ratios depend on other load of the machine, so
// they are not tested.
#include "backends/cpu/threads/limits.h"

#include <gtest/gtest.h>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "isas.h"

namespace lamina::cpu {
namespace {

TEST(Limits, ReadBandwidthIsMeasured) {
  set_threads(0, false);
  EXPECT_GT(measure_read_bandwidth(0.01), 0);
}

TEST(Limits, PeakFlopsAreMeasuredWithEveryInstructionSet) {
  set_threads(1, false);
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    EXPECT_GT(measure_peak_flops(DType::f32, 0.01), 0) << name(isa);
    EXPECT_GT(measure_peak_flops(DType::bf16, 0.01), 0) << name(isa);
    EXPECT_GT(measure_peak_flops(DType::i8, 0.01), 0) << name(isa);
    for (const formats::BlockFormat& format : formats::block_formats())
      EXPECT_GT(measure_peak_flops(DType::bf16, &format, 0.001), 0) << name(isa);
  }
}

}  // namespace
}  // namespace lamina::cpu
