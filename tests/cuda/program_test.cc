// The program on machines without a usable GPU: `--device cuda` is one clear line, only `auto`
// takes the CPU instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/paths.h"
#include "support/process.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

const std::string kProgram = LAMINA_BUILD_DIR "/bin/lamina";

// Runs the program with a driver of that kind: none, or one of fake_driver.cc.
Finished decode_on(const std::string& device, const std::string& driver) {
  Surroundings surroundings;
  if (driver != "none")
    surroundings.environment = {"LD_LIBRARY_PATH=" LAMINA_BUILD_DIR "/tests/fake_driver",
                                "FAKE_DRIVER=" + driver};
  return run_process({kProgram, "decode", "-m", LAMINA_SOURCE_DIR "/configs", "--ids", "1,2", "-n",
                      "1", "--device", device, "--stats"},
                     surroundings);
}

void expect_refusal(const std::string& device, const std::string& driver, const char* text) {
  const Finished run = decode_on(device, driver);
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr(text));
}

TEST(CudaProgram, NoUsableDriverIsOneClearLine) {
  expect_refusal("cuda", "none", "error: cuda: cannot open the driver: libcuda.so.1: ");
  expect_refusal(
      "cuda", "old",
      "error: cuda: the driver is for CUDA 11.4; expected a driver for CUDA 12.0 or newer");
  expect_refusal("cuda:1", "empty",
                 "error: cuda: starting the driver: no CUDA-capable device is detected "
                 "(CUDA_ERROR_NO_DEVICE, error 100)");
}

TEST(CudaProgram, AProgramWithoutKernelsSaysSo) {
  expect_refusal("cuda", "good",
                 "error: cuda: cannot open the kernels: " LAMINA_BUILD_DIR
                 "/lib/lamina/lamina_cuda.so: ");
}

TEST(CudaProgram, LinksNoLibraryOfCuda) {
  const Finished run = run_process({"ldd", kProgram});
  ASSERT_EQ(run.code, 0);
  for (const char* name : {"cuda", "cublas", "cudnn", "nccl"})
    EXPECT_THAT(run.out, ::testing::Not(HasSubstr(name)));
}

}  // namespace
}  // namespace lamina::testing
