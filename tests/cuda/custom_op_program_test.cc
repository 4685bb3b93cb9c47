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

// ---- Ops that are computed by their lowerings ----

Finished explain_on_h100(const std::string& model, std::vector<std::string> environment = {}) {
  return run_process({LAMINA_BUILD_DIR "/bin/lamina", "explain", LAMINA_SOURCE_DIR "/" + model,
                      "--phase", "train", "--show", "kernels", "--device", "cuda:h100",
                      "--plugin-path", LAMINA_BUILD_DIR "/tests/plugins"},
                     {.environment = std::move(environment)});
}

TEST(ExplainOfLoweredOps, SaysThatThePluginHasNoKernelForGpus) {
  const Finished run = explain_on_h100("examples/plugins/mingru/check/mingru.toml");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::ContainsRegex("== custom ops that are computed by their lowerings"
                                                "\nmingru.mix +the plugin's kernel computes on "
                                                "the CPU; it has none for GPUs\n"));
}

TEST(ExplainOfLoweredOps, SaysThatKernelsOfPluginsAreOff) {
  const Finished run =
      explain_on_h100("examples/plugins/xielu/check/xielu.toml", {"LAMINA_PLUGIN_KERNELS=0"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::ContainsRegex("xielu.xielu +LAMINA_PLUGIN_KERNELS is 0\n"));
}

TEST(ExplainOfLoweredOps, ListsNoOpThatUsesItsKernel) {
  const Finished run = explain_on_h100("examples/plugins/xielu/check/xielu.toml");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("by their lowerings")));
}

}  // namespace
}  // namespace lamina::testing
