// The emulated GPU as a device of commands and benchmarks.
#include "device/cuda.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/vjp.h"
#include "backends/cuda/described/resources.h"
#include "backends/cuda/emulation/driver.h"
#include "device/kernel_launches.h"
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

TEST(CudaDevice, FreeMemoryIsTheGpusMemory) {
  const device::CudaDevice gpu = open_device();
  const std::uint64_t before = gpu.available_memory();
  const auto buffer = gpu.backend().allocate(1 << 20);
  EXPECT_EQ(gpu.available_memory(), before - (1 << 20));
}

TEST(CudaDevice, ThreadsAreTheHostsThreads) {
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
                    "this GPU is known only by its data sheet; it computes nothing");
}

// Attention and its gradients of one head width, compiled for a described GPU.
std::vector<device::KernelLaunches> attention_on(const device::CudaDevice& gpu, DType dtype,
                                                 std::int64_t width) {
  Graph graph;
  const Type heads{dtype, {1, 96, 2, width}, {}};
  std::vector<Tensor> qkv;
  for (const char* name : {"q", "k", "v"}) qkv.push_back(graph.add_input(name, heads));
  const Tensor dy = graph.add_input("dy", heads);
  const Tensor y = ops::call("attention", {qkv[0], qkv[1], qkv[2]}, {{"causal", true}});
  graph.add_output("y", y);
  for (const Tensor& gradient :
       autodiff::vjp(graph, std::span(&y, 1), std::span(&dy, 1), qkv, autodiff::save_everything()))
    graph.add_output("gradient", gradient);
  Program program(optimized_for(gpu.backend(), graph), gpu.backend());
  return device::kernel_launches(gpu, program);
}
std::int64_t most_shared(const std::vector<device::KernelLaunches>& launches) {
  return std::ranges::max(launches, {}, &device::KernelLaunches::shared_bytes).shared_bytes;
}

// 99 KiB instead of the H200's 227: kernels take smaller tiles, or other kernels compute the op.
TEST(DescribedGpu, WithLittleSharedMemoryLaunchesNoMoreThanItHas) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t width : {64, 128, 256, 512}) {
      SCOPED_TRACE(width);
      const auto launches = attention_on(*device::describe_gpu("rtx4090"), dtype, width);
      EXPECT_FALSE(launches.empty());
      EXPECT_LE(most_shared(launches), 99 << 10);
    }
  EXPECT_GT(most_shared(attention_on(*device::describe_gpu("h200"), DType::bf16, 256)), 99 << 10);
}

TEST(DescribedGpu, MultipliesByWarpgroupsOnCapability90Only) {
  const auto has_warpgroups = [](const char* card) {
    const auto launches = attention_on(*device::describe_gpu(card), DType::bf16, 128);
    return std::ranges::any_of(launches, [](const device::KernelLaunches& l) {
      return l.kernel == "attention_wgmma_128_bf16";
    });
  };
  EXPECT_TRUE(has_warpgroups("h100"));
  EXPECT_TRUE(has_warpgroups("h200"));
  EXPECT_FALSE(has_warpgroups("a100"));
  EXPECT_FALSE(has_warpgroups("rtx4090"));
}

TEST(DescribedGpu, ShowsTheOccupancyOfEachKernel) {
  for (const device::KernelLaunches& l :
       attention_on(*device::describe_gpu("h200"), DType::bf16, 128)) {
    EXPECT_GT(l.count, 0) << l.kernel;
    EXPECT_GT(l.registers, 0) << l.kernel;
    EXPECT_GT(l.warps, 0) << l.kernel;
    EXPECT_EQ(l.most_warps, 64) << l.kernel;
  }
}

// Numbers of NVIDIA's occupancy calculator.
TEST(Occupancy, IsLimitedByTheScarcestResource) {
  const cuda::Card& h200 = *cuda::find_card("h200");
  const auto warps = [&](int registers, int threads, std::int64_t shared) {
    const cuda::Occupancy there =
        cuda::occupancy(h200, {.registers_90 = registers, .shared_bytes = 0}, threads, shared);
    return std::pair(there.warps, std::string(there.limit));
  };
  EXPECT_EQ(warps(32, 256, 0), std::pair(64, std::string("threads")));
  EXPECT_EQ(warps(128, 256, 0), std::pair(16, std::string("registers")));
  // 4 warps fit into each quarter of the registers; 19 would fit into all of them together.
  EXPECT_EQ(warps(104, 96, 0), std::pair(15, std::string("registers")));
  EXPECT_EQ(warps(32, 32, 0), std::pair(32, std::string("blocks")));
  EXPECT_EQ(warps(64, 128, 100 << 10), std::pair(8, std::string("shared memory")));
  EXPECT_EQ(warps(255, 1024, 0), std::pair(0, std::string("registers")));
}

}  // namespace
}  // namespace lamina::testing
