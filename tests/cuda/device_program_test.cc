// The program with --device auto and --device cuda, on the emulated GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/paths.h"
#include "support/process.h"
#include "support/published_model.h"
#include "support/small_runs.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

using ::testing::HasSubstr;

class DeviceProgram : public ::testing::Test {
 protected:
  DeviceProgram() {
    folder_.write("text.txt", text_of_words(40));
    folder_.write("t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    folder_.write("run.toml", kSmallLlama + "[data]\n" + kSmallText +
                                  "[train]\nsteps = 1\nbatch_size = 2\n[run]\nout = \"out\"\n");
    add_golden_model(folder_, "llama3_gqa");
  }
  Finished run(const std::string& line, std::vector<std::string> environment = {}) const {
    return run_shell("printf 'hi\\n' | " LAMINA_BUILD_DIR "/bin/lamina_emulated " + line,
                     {.environment = std::move(environment), .folder = folder_ / ""});
  }
  TempDir folder_;
};

const std::string kLittleMemory = "LAMINA_GPU_MEMORY=1024";

TEST_F(DeviceProgram, AutoTakesAGpuAndSaysSo) {
  for (const char* device : {"", " --device auto"}) {
    const Finished run = this->run(std::string("decode -m model --ids 1,2 -n 2") + device);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("device cuda (sm_90), by --device auto\n"));
  }
}

TEST_F(DeviceProgram, AutoTakesTheCpuIfTheGpuHasTooLittleMemory) {
  for (const char* line : {"decode -m model --ids 1,2 -n 2", "train run.toml",
                           "eval -m model --data text.txt --tokens 24",
                           "embed -m model --ids 1,2 -o states.safetensors"}) {
    const Finished run = this->run(line, {kLittleMemory});
    EXPECT_EQ(run.code, 0) << line << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr(" of the memory of cuda are free; --device auto takes the CPU"));
  }
}

// A GPU with little memory ends each command that computes on it.
TEST_F(DeviceProgram, EveryCommandComputesOnAGpu) {
  const std::string golden = (golden_dir() / "hf/llama3_gqa").string();
  for (const std::string& line : std::vector<std::string>{
           "train run.toml", "decode -m out -p a -n 2", "chat -m out --chat-template t.jinja -n 2",
           "eval -m out --data text.txt", "embed -m out -p a -o states.safetensors",
           "verify " + golden + " --dtype float32",
           "bench decode --model " LAMINA_SOURCE_DIR
           "/configs/models/gpt3-52k.toml -n 2 --repeats 1",
           "plugin check simple --only EQV-1"}) {
    const std::string on_gpu = line + " --device cuda";
    const Finished run = this->run(on_gpu);
    EXPECT_EQ(run.code, 0) << line << ": " << run.out << run.err;
    const Finished without = this->run(on_gpu, {kLittleMemory});
    EXPECT_NE(without.code, 0) << line;
    EXPECT_THAT(without.out + without.err, HasSubstr("memory")) << line;
  }
}

TEST_F(DeviceProgram, EveryBenchmarkOfADeviceTakesAGpu) {
  ASSERT_EQ(run("train run.toml --device cpu").code, 0);
  for (const char* line : {"bench machine --json", "bench start -m out --repeats 1 --json"}) {
    const Finished run = this->run(std::string(line) + " --device cuda");
    EXPECT_EQ(run.code, 0) << line << ": " << run.err;
    EXPECT_THAT(run.out, HasSubstr("\"isa\": \"sm_90\"")) << line;
  }
  // The measured process computes on the same device.
  const Finished start = run("bench start -m out --repeats 1 --device cuda", {kLittleMemory});
  EXPECT_EQ(start.code, 7) << start.err;
  const std::string compile =
      "bench compile " LAMINA_SOURCE_DIR "/configs/models/gpt3-52k.toml --repeats 1 --device ";
  EXPECT_EQ(run(compile + "cuda").code, 0);
  EXPECT_EQ(run(compile + "cuda:7").code, 2);
}

TEST_F(DeviceProgram, DecodesTheTokensOfTheCpu) {
  for (const char* options :
       {"--temp 0", "--temp 0.9", "--temp 0.9 --top-k 5", "--temp 1.2 --top-p 0.7 --min-p 0.01",
        "--temp 0 --repeat-penalty 1.3 --no-repeat-ngram 2",
        "--temp 0 --repeat-penalty 1.3 --repeat-last-n 3", "--temp 0.9 --logit-bias 3=4",
        "--temp 1 --typical-p 0.6", "--temp 0.9 --logprobs 2", "--temp 0 --kv-dtype int8",
        "--temp 0 --kv-dtype fp8"}) {
    const std::string line = fmt::format(
        "decode -m model --ids 1,2 -n 12 --seed 7 --dtype float32 --json {} --device ", options);
    const Finished here = run(line + "cpu"), there = run(line + "cuda");
    EXPECT_EQ(there.code, 0) << there.err;
    const auto ids_of = [](const Finished& run) {
      const std::size_t at = run.out.find("\"ids\":");
      EXPECT_NE(at, std::string::npos) << run.out;
      return at == std::string::npos ? std::string()
                                     : run.out.substr(at, run.out.find(']', at) - at);
    };
    EXPECT_EQ(ids_of(there), ids_of(here)) << options;
  }
}

TEST_F(DeviceProgram, PlansAndExplainsForAGpu) {
  EXPECT_THAT(run("plan model --device cuda").out, HasSubstr("memory of the device for decoding"));
  EXPECT_THAT(run("explain run.toml --device cuda --show kernels").out, HasSubstr("few rows"));
}

}  // namespace
}  // namespace lamina::testing
