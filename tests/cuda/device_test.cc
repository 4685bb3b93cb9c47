// The emulated GPU as a device of commands and benchmarks.
#include "device/cuda.h"

#include <gtest/gtest.h>

#include "backends/cuda/emulation/driver.h"

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

}  // namespace
}  // namespace lamina::testing
