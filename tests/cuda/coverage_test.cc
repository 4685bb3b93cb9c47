// The ops that the CPU computes are computed by the GPU.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "cuda/gpu.h"
#include "ops/registry.h"

namespace lamina::testing {
namespace {

// Views and scans need no kernel on any device.
bool runs_on(const Backend& backend, const Op& op) {
  return !backend.kernels(op).empty() || op.def->lower != nullptr;
}

TEST(GpuKernels, ThereAreKernelsOrALoweringForEveryOpOfTheCpu) {
  for (const Op& op : ops::all())
    EXPECT_TRUE(runs_on(emulated_gpu(), op) || !runs_on(cpu::cpu_backend(), op))
        << op.name << ": has neither a kernel of the GPU nor a lowering";
}

}  // namespace
}  // namespace lamina::testing
