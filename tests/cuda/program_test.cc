// The program on machines without a usable GPU: `--device cuda` is one clear line, only `auto`
// takes the CPU instead.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

const std::string kProgram = LAMINA_BUILD_DIR "/bin/lamina";

// Runs a program with a driver of that kind: none, or one of fake_driver.cc.
Finished decode_on(const std::string& device, const std::string& driver,
                   const std::string& program = kProgram,
                   const std::vector<std::string>& options = {"--stats"}) {
  Surroundings surroundings;
  if (driver != "none")
    surroundings.environment = {"LD_LIBRARY_PATH=" LAMINA_BUILD_DIR "/tests/fake_driver",
                                "FAKE_DRIVER=" + driver};
  if (driver == "hung") surroundings.environment.emplace_back("LAMINA_GPU_TIMEOUT=1");
  std::vector<std::string> words = {program,    "decode", "-m", LAMINA_SOURCE_DIR "/configs",
                                    "--ids",    "1,2",    "-n", "1",
                                    "--device", device};
  words.insert(words.end(), options.begin(), options.end());
  return run_process(words, surroundings);
}

void expect_refusal(const std::string& device, const std::string& driver, const char* text) {
  const Finished run = decode_on(device, driver);
  EXPECT_EQ(run.code, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr(text));
}

TEST(CudaProgram, NoUsableDriverIsOneClearLine) {
  expect_refusal("cuda", "none",
                 "error: --device: cuda cannot be used: no NVIDIA driver\n  libcuda.so.1: ");
  expect_refusal("cuda", "old",
                 "error: --device: cuda cannot be used: the driver is for CUDA 11.4; expected a "
                 "driver for CUDA 12.0 or newer");
  expect_refusal("cuda:1", "empty",
                 "error: --device: cuda:1 cannot be used: the driver shows no GPU\n");
  expect_refusal("cuda", "empty", "CUDA_VISIBLE_DEVICES limits the GPUs of a process");
  expect_refusal("cuda", "mixed", "error: --device: cuda cannot be used: starting the driver: ");
  expect_refusal("cuda", "mixed", "are of different versions, as after an upgrade: reboot");
}

TEST(CudaProgram, AProgramWithoutKernelsSaysSo) {
  expect_refusal("cuda", "good",
                 "error: --device: cuda cannot be used: cannot open the kernels: " LAMINA_BUILD_DIR
                 "/lib/lamina/lamina_cuda.so: ");
}

TEST(CudaProgram, ADriverThatIsNewerThanThisProgramIsUsed) {
  expect_refusal("cuda", "new", "error: --device: cuda cannot be used: cannot open the kernels: ");
}

TEST(CudaProgram, ADriverThatDoesNotReturnIsNamed) {
  const Finished run = decode_on("cuda", "hung");
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: cuda: cuInit does not return: no answer for 0.1 s; the "
                                 "program gives up after 1 s"));
  EXPECT_THAT(run.err, HasSubstr("error: cuda: cuInit does not return: no answer for 1 s\n"));
  EXPECT_THAT(run.err, HasSubstr("the process ends at once; the last checkpoint stays"));
}

TEST(CudaProgram, ADriverThatDoesNotReturnIsAnErrorInJson) {
  const Finished run = decode_on("cuda", "hung", kProgram, {"--json"});
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("error: cuda: cuInit does not return: no answer for 1 s\n"));
  EXPECT_THAT(run.out, HasSubstr(R"({"error":{"code":7,"class":)"));
  EXPECT_THAT(run.out, HasSubstr(R"("what":"cuInit does not return: no answer for 1 s")"));
}

// Expects that the program refuses kernels of fake_driver/kernels.cc.
void expect_refused_kernels(const std::string& kernels, const char* text) {
  const TempDir folder;
  const std::filesystem::path root(folder / "");
  std::filesystem::create_directories(root / "bin");
  std::filesystem::create_directories(root / "lib/lamina");
  std::filesystem::copy_file(kProgram, root / "bin/lamina");
  std::filesystem::copy_file(LAMINA_BUILD_DIR "/tests/fake_driver/" + kernels + ".so",
                             root / "lib/lamina/lamina_cuda.so");
  const Finished run = decode_on("cuda", "good", (root / "bin/lamina").string());
  EXPECT_EQ(run.code, 2) << run.err;
  EXPECT_THAT(run.err, HasSubstr(text));
}

TEST(CudaProgram, KernelsOfAnotherVersionAreRefused) {
  expect_refused_kernels("other_version", "is of version 0.0.7; expected ");
}

TEST(CudaProgram, KernelsThatNeedANewerDriverAreRefused) {
  expect_refused_kernels("newer_toolkit",
                         "error: --device: cuda cannot be used: the driver is for CUDA 13.0; the "
                         "kernels of this build need "
                         "14.0 or newer");
}

TEST(CudaProgram, LinksNoLibraryOfCuda) {
  const Finished run = run_process({"ldd", kProgram});
  ASSERT_EQ(run.code, 0);
  for (const char* name : {"cuda", "cublas", "cudnn", "nccl"})
    EXPECT_THAT(run.out, ::testing::Not(HasSubstr(name)));
}

TEST(CudaProgram, ExplainNeedsNoGpuThatIsOnlyDescribed) {
  for (const char* phase : {"train", "prefill", "decode"}) {
    const Finished run =
        run_process({kProgram, "explain", LAMINA_SOURCE_DIR "/configs/models/bench-0.6b.toml",
                     "--device", "cuda:h200", "--phase", phase, "--show", "time"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("== predicted time on cuda:h200: "));
  }
}

// The calls in a list of kernels: a line each, "not" lines give reasons. The kernels of a scan's
// body are indented, and called as often as the line above them says.
int listed_calls(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  int count = 0, times = 1;
  while (std::getline(lines, line) && !line.starts_with("arena ")) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == line.npos || line.starts_with("==")) continue;
    if (line.find(", its arena ") != line.npos) {
      times = std::stoi(line);
    } else if (!line.substr(begin).starts_with("not ") && !line.starts_with("scan ")) {
      count += begin < 4 ? 1 : times;
    }
  }
  return count;
}

TEST(CudaProgram, ExplainCountsTheKernelsInTheGraphOfAStep) {
  for (const char* phase : {"train", "prefill", "decode"}) {
    const Finished run =
        run_process({kProgram, "explain", LAMINA_SOURCE_DIR "/configs/models/bench-0.6b.toml",
                     "--device", "cuda:h200", "--phase", phase, "--show", "kernels"});
    EXPECT_EQ(run.code, 0) << run.err;
    const std::string list = run.out.substr(run.out.find("== kernels"));
    EXPECT_GT(listed_calls(list), 100);
    EXPECT_THAT(list, HasSubstr(fmt::format("a graph of {} kernel calls", listed_calls(list))));
  }
}

TEST(CudaProgram, ExplainShowsOneKernelForTheRotationsAndWritesOfALayer) {
  const Finished run =
      run_process({kProgram, "explain", LAMINA_SOURCE_DIR "/configs/models/bench-0.6b.toml",
                   "--device", "cuda:h200", "--show", "kernels"});
  EXPECT_THAT(run.out, HasSubstr("    rotate_write       rows "));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr(" cache_write")));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr(" rotate ")));
  // 28 layers with 10 each, before them 2 and after them 3 and a shortlist.
  EXPECT_THAT(run.out, HasSubstr("a graph of 286 kernel calls"));
}

}  // namespace
}  // namespace lamina::testing
