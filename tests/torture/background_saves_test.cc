// The background thread that writes checkpoints is not bound to the trainer's CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "support/paths.h"
#include "support/temp_dir.h"
#include "torture/child.h"

namespace lamina::torture {
namespace {

using lamina::testing::TempDir;

TEST(BackgroundSaves, TheWriterMayUseEveryCpu) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "this machine has one CPU";
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("line {} has the square {}.\n", i, i * i);
  folder.write("text.txt", text);
  folder.write("run.toml", R"(family = "llama2"
model = { vocab_size = 258, hidden_size = 16, intermediate_size = 48, num_hidden_layers = 2, num_attention_heads = 2 }
data = { train = ["text.txt"], sequence_length = 64 }
train = { steps = 2, batch_size = 4 }
checkpoint = { every_steps = 1 }
run = { out = "out" }
)");
  // Slow writes, so that the thread is visible.
  Child child(
      {.words = {LAMINA_BUILD_DIR "/bin/lamina", "train", "run.toml", "-t", "1"},
       .folder = folder.path(),
       .environment = {"LAMINA_PIN=1"},
       .fault = {.calls = "write", .path = "/checkpoints/", .times = 10, .action = "delay:100"}});
  bool seen = false;
  while (!child.ends_within(0.002)) {
    const std::vector<int> cpus = child.cpus_of_threads();
    seen |= cpus.size() == 2 && std::ranges::min(cpus) == 1 && std::ranges::max(cpus) > 1;
  }
  const Ended ended = child.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace lamina::torture
