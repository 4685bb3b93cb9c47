// The emulated GPU as a device of commands and benchmarks.
#include "device/cuda.h"

#include <gtest/gtest.h>

#include "backends/cuda/emulation/driver.h"
#include "ops/op.h"
#include "support/expect_error.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

device::CudaDevice open_device() { return {"cuda", cuda::emulation::open_emulated_gpu()}; }

TEST(CudaDevice, Example) {
  const device::CudaDevice gpu = open_device();
  EXPECT_EQ(gpu.name(), "cuda");
  EXPECT_EQ(gpu.isa(), "sm_90");
  EXPECT_TRUE(gpu.backend().reaches(MemoryKind::device));
  EXPECT_FALSE(gpu.backend().reaches(MemoryKind::pinned));
}

TEST(CudaDevice, MeasuresTheSpeedOfItsMemory) {
  const device::CudaDevice gpu = open_device();
  EXPECT_GT(gpu.memory()->bytes(), std::size_t{1} << 20);
  EXPECT_GT(gpu.read_bandwidth(), 0);
}

// 989 TFLOP/s of an H200's datasheet, at its boost clock of 1.83 GHz; the emulated GPU has the
// highest clock, 1.98 GHz.
TEST(CudaDevice, PeakIsTheVendorsNumberAtItsClock) {
  const device::CudaDevice gpu = open_device();
  EXPECT_NEAR(gpu.peak_flops(DType::bf16) * 1.83 / 1.98, 989e12, 2e12);
  EXPECT_NEAR(gpu.peak_flops(DType::f32) * 1.83 / 1.98, 62e12, 1e12);
}

TEST(CudaDevice, FreeMemoryIsThatOfTheGpu) {
  const device::CudaDevice gpu = open_device();
  const std::uint64_t before = gpu.available_memory();
  const auto buffer = gpu.backend().allocate(1 << 20);
  EXPECT_EQ(gpu.available_memory(), before - (1 << 20));
}

TEST(CudaDevice, ThreadsAreThoseOfTheHost) {
  const device::CudaDevice gpu = open_device();
  gpu.set_threads(2, false);
  EXPECT_EQ(gpu.num_threads(), 2);
}

TEST(DescribedGpu, HasTheLimitsOfItsDataSheet) {
  const auto h200 = device::describe_gpu("h200");
  EXPECT_EQ(h200->name(), "cuda:h200");
  EXPECT_FALSE(h200->computes());
  EXPECT_EQ(h200->isa(), "sm_90");
  EXPECT_EQ(h200->read_bandwidth(), 4800e9);
  EXPECT_NEAR(h200->peak_flops(DType::bf16), 989e12, 2e12);
}

// A program is compiled with kernels and products, and refuses to run.
TEST(DescribedGpu, CompilesProgramsAndRunsNone) {
  const auto h200 = device::describe_gpu("h200");
  Graph graph;
  const Tensor x = graph.add_input("x", {DType::bf16, {64, 32}, {}});
  const Tensor w = graph.add_input("w", {DType::bf16, {48, 32}, {}});
  graph.add_output("y", ops::call("silu", {ops::linear(x, w)}));
  Program program(graph, h200->backend());
  EXPECT_NE(program.describe().find("map"), std::string::npos);
  EXPECT_ERROR_SAYS(run(program, h200->backend(), {zeros(x.type()), zeros(w.type())}),
                    ExitCode::memory,
                    "this GPU is only described, for explain; it computes nothing");
}

}  // namespace
}  // namespace lamina::testing
