// The ops that the CPU computes are computed by the GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "backends/cpu/backend.h"
#include "backends/cuda/context.h"
#include "backends/cuda/described/resources.h"
#include "backends/cuda/emulation/grid.h"
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

// A kernel without a row is new: scripts/gpu_kernels --update writes the tables where nvcc is.
TEST(KernelResources, AreKnownForEveryKernel) {
  std::set<std::string> kernels, rows;
  for (const std::string& name : cuda::emulation::kernel_names()) kernels.insert(name);
  for (const cuda::KernelResources& row : cuda::kernel_resources())
    rows.insert(std::string(row.kernel));
  EXPECT_EQ(rows, kernels);
}

TEST(KernelResources, NameTheModuleOfEachKernel) {
  for (const cuda::KernelResources& row : cuda::kernel_resources())
    if (const auto* kernel = cuda::emulation::find_kernel(std::string(row.kernel).c_str())) {
      EXPECT_EQ(cuda::emulation::module_of(*kernel), row.module) << row.kernel;
    }
}

// The driver may compile a module for minutes.
TEST(KernelResources, ALookUpLoadsOneModule) {
  const auto gpu = cuda::emulation::open_emulated_gpu();
  auto& context = static_cast<cuda::CudaContext&>(gpu->context());
  context.enter();
  std::set<std::string_view> modules;
  for (const cuda::KernelResources& row : cuda::kernel_resources()) {
    modules.insert(row.module);
    const std::int64_t before = cuda::emulation::driver_counts().loads;
    cuda::Modules empty(context.api(), cuda::emulation::images(), false);
    EXPECT_TRUE(empty.find(std::string(row.kernel))) << row.kernel;
    EXPECT_EQ(cuda::emulation::driver_counts().loads - before, 1) << row.kernel;
  }
  EXPECT_GT(modules.size(), 50u);
}

TEST(KernelResources, NoKernelSpillsRegisters) {
  for (const cuda::KernelResources& row : cuda::kernel_resources())
    EXPECT_EQ(row.spilled_bytes, 0) << row.kernel;
}

TEST(KernelResources, AStackAndManyRegistersHaveAReason) {
  for (const cuda::KernelResources& row : cuda::kernel_resources()) {
    const bool needs_one =
        row.stack_bytes > 0 || std::max(row.registers_90, row.registers_80) > 168;
    EXPECT_TRUE(!needs_one || !row.reason.empty()) << row.kernel;
  }
}

}  // namespace
}  // namespace lamina::testing
