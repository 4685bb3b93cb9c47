// The program with a plugin that has GPU kernels, on the emulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

Finished run_emulated(std::vector<std::string> arguments,
                      std::vector<std::string> environment = {}) {
  arguments.insert(arguments.begin(), LAMINA_BUILD_DIR "/bin/lamina_emulated");
  arguments.insert(arguments.end(),
                   {"--device", "cuda", "--plugin-path", LAMINA_BUILD_DIR "/tests/plugins"});
  return run_process(arguments, {.environment = std::move(environment)});
}

TEST(GpuKernelOfXielu, EqualsItsLowering) {
  // In one process, without the time limit: on a busy machine the emulated GPU waits often.
  const Finished run = run_emulated(
      {"plugin", "check", LAMINA_BUILD_DIR "/tests/plugins/xielu.lamina.so", "--here", "--family",
       "xielu", "--level", "full", "--only", "GRD-3", "--seed", "1", "--threads", "1"});
  EXPECT_EQ(run.code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("GRD-3  ok"));
}

TEST(GpuKernelOfXielu, IsShownByExplain) {
  const std::vector<std::string> explain = {
      "explain", LAMINA_SOURCE_DIR "/examples/plugins/xielu/check/xielu.toml", "--show", "kernels"};
  const Finished run = run_emulated(explain);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::ContainsRegex("xielu.xielu.*plugin"));
  const Finished off = run_emulated(explain, {"LAMINA_PLUGIN_KERNELS=0"});
  EXPECT_EQ(off.code, 0) << off.err;
  EXPECT_THAT(off.out, ::testing::Not(::testing::ContainsRegex("xielu.xielu.* plugin")));
}

}  // namespace
}  // namespace lamina::testing
