// scripts/gpu_bundle and scripts/gpu_check, from bundle to report, on the emulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/json.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A second tree: the sources, but of build/test only what the bundle brings.
class GpuCheck : public ::testing::Test {
 protected:
  GpuCheck() {
    fs::create_directory(tree_ / "scripts");
    fs::copy_file(fs::path(LAMINA_SOURCE_DIR) / "scripts/gpu_check", tree_ / "scripts/gpu_check");
    for (const char* name : {"configs", "examples", "plugins", "tests"})
      fs::create_directory_symlink(fs::path(LAMINA_SOURCE_DIR) / name, tree_ / name);
  }

  std::string file(const char* name) const { return (tree_ / name).string(); }
  Finished check(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {file("scripts/gpu_check"), "run", "--emulated", "--quick"};
    all.insert(all.end(), words.begin(), words.end());
    return run_process(all);
  }
  std::map<std::string, JsonValue> parts() {
    report_.push_back(JsonDocument::read(file("build/gpu_check/gpu_check.json")));
    std::map<std::string, JsonValue> out;
    const JsonValue list = report_.back().root().at("parts");
    for (std::size_t i = 0; i < list.size(); ++i)
      out[std::string(list.element(i).at("part").as_string())] = list.element(i);
    return out;
  }
  // Makes the part `ops` run these lines, and the other parts' program fail.
  void replace_ops(const std::string& lines) {
    fs::create_directories(tree_ / "build/test/bin");
    fs::create_symlink(fs::path(LAMINA_BUILD_DIR) / "bin/lamina_emulated",
                       tree_ / "build/test/bin/lamina_emulated");
    const fs::path program = tree_ / "build/test/bin/cuda_ops_test";
    std::ofstream(program) << "#!/bin/bash\n" << lines << '\n';
    fs::permissions(program, fs::perms::owner_all);
  }
  static std::string detail(const JsonValue& part) {
    return std::string(part.at("detail").as_string());
  }
  static std::string status(const JsonValue& part) {
    return std::string(part.at("status").as_string());
  }

  TempDir temp_;
  fs::path tree_ = temp_.path();
  std::vector<JsonDocument> report_;
};

TEST_F(GpuCheck, ReportsEachPartInSeveralCalls) {
  fs::create_directories(tree_ / "goldens/hf");
  fs::create_directory_symlink(fs::path(LAMINA_SOURCE_DIR) / "tests/golden/hf/llama3_gqa",
                               tree_ / "goldens/hf/llama3_again");
  fs::create_directories(tree_ / "goldens/maxtext/without_numbers");
  const Finished bundle =
      run_process({LAMINA_SOURCE_DIR "/scripts/gpu_bundle", "--emulated", "--limit", "200",
                   "--goldens", file("goldens"), file("bundle.tar.xz")},
                  {.environment = {"XZ_OPT=-0 -T0"}});
  ASSERT_EQ(bundle.code, 0) << bundle.out << bundle.err;

  const Finished first = check({"--bundle", file("bundle.tar.xz"), "--only", "ops"});
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_TRUE(fs::exists(tree_ / "build/test/gpu_check/goldens/hf/llama3_again"));
  EXPECT_FALSE(fs::exists(tree_ / "build/test/gpu_check/goldens/maxtext/without_numbers"));
  EXPECT_EQ(status(parts().at("ops")), "passed");
  EXPECT_EQ(status(parts().at("goldens")), "not run");
  EXPECT_EQ(parts().at("goldens").at("detail").as_string(), "left for the next call");

  const Finished second = check({});
  EXPECT_EQ(second.code, 0) << second.out << second.err;
  EXPECT_THAT(second.out, Not(HasSubstr("ops: ")));
  const auto all = parts();
  for (const char* part : {"ops", "goldens", "racecheck", "kit.simple"})
    EXPECT_EQ(status(all.at(part)), "passed") << part;
  EXPECT_EQ(status(all.at("memcheck")), "not run");
  EXPECT_THAT(std::string(all.at("bench.decode").at("detail").as_string()), HasSubstr("bar"));
  EXPECT_EQ(all.at("bench.decode").at("bench").at("workload").as_string(), "decode");
}

// A program that fails is a failed part with the reason, and the exit code says so.
TEST_F(GpuCheck, AFailureIsReportedWithItsReason) {
  fs::create_directories(tree_ / "build/test/bin");
  for (const char* program : {"lamina_emulated", "cuda_models_test"})
    fs::create_symlink(fs::path(LAMINA_BUILD_DIR) / "bin" / program,
                       tree_ / "build/test/bin" / program);
  const Finished run = check({"--only", "ops"});
  EXPECT_EQ(run.code, 1) << run.out << run.err;
  EXPECT_EQ(status(parts().at("ops")), "failed");
  EXPECT_THAT(std::string(parts().at("ops").at("detail").as_string()), HasSubstr("cuda_ops_test"));
}

// SIGTERM does not end it, so it has to be killed.
TEST_F(GpuCheck, APartThatHangsEndsAtItsLimitAndOthersRun) {
  replace_ops("trap '' TERM\nwhile true; do sleep 0.1; done");
  const Finished run =
      check({"--seconds-per-part", "1", "--only", "ops", "--only", "bench.decode"});
  EXPECT_EQ(run.code, 1) << run.out << run.err;
  const auto all = parts();
  EXPECT_EQ(status(all.at("ops")), "failed");
  EXPECT_EQ(detail(all.at("ops")), "took longer than 1 s");
  EXPECT_THAT(run.out, HasSubstr("bench.decode: "));
}

// `ops` may take a minute; the call has 25 s for it.
TEST_F(GpuCheck, APartThatTheEndOfTheCallStopsIsLeftForTheNextCall) {
  replace_ops("sleep 40");
  const Finished first = check({"--seconds", "25", "--only", "device", "--only", "ops"});
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_EQ(status(parts().at("ops")), "not run");
  EXPECT_EQ(detail(parts().at("ops")), "left for the next call");
}

// The script ends by SIGKILL while `ops` runs. The parent of `ops` is timeout.
TEST_F(GpuCheck, AKilledCallLeavesACompleteReport) {
  replace_ops("kill -KILL $(cut -d' ' -f4 /proc/$PPID/stat)");
  const Finished killed = check({});
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  auto all = parts();
  EXPECT_EQ(status(all.at("device")), "passed");
  EXPECT_EQ(detail(all.at("ops")), "runs");
  EXPECT_EQ(status(all.at("goldens")), "not run");
  std::ifstream table(file("build/gpu_check/gpu_check.md"));
  const auto lines = std::count(std::istreambuf_iterator(table), {}, '\n');
  EXPECT_EQ(lines, 2 + std::ssize(all));

  // On another machine, which has only what came back.
  fs::copy_file(file("build/gpu_check/gpu_check_state.tar.gz"), file("state.tar.gz"));
  fs::remove_all(tree_ / "build/gpu_check");
  ASSERT_EQ(run_process({"tar", "-xzf", "state.tar.gz"}, {.folder = tree_.string()}).code, 0);
  const Finished next = check({"--only", "memcheck"});
  EXPECT_EQ(next.code, 1);
  all = parts();
  EXPECT_EQ(status(all.at("device")), "passed");
  EXPECT_EQ(status(all.at("ops")), "failed");
  EXPECT_EQ(detail(all.at("ops")), "the call was stopped while this part ran");
  EXPECT_EQ(status(all.at("memcheck")), "not run");
}

// As by the system, when memory is missing.
TEST_F(GpuCheck, AProgramThatIsKilledHasNotTakenTooLong) {
  replace_ops("kill -KILL $$");
  EXPECT_EQ(check({"--only", "ops"}).code, 1);
  EXPECT_THAT(detail(parts().at("ops")), HasSubstr("exit code 137"));
}

TEST_F(GpuCheck, ABundleWithoutALibraryIsRefused) {
  fs::create_directories(tree_ / "build/test/bin");
  fs::copy_file(fs::path(LAMINA_BUILD_DIR) / "bin/lamina", tree_ / "build/test/bin/lamina");
  ASSERT_EQ(run_process({"tar", "-cf", "bundle.tar", "build"}, {.folder = tree_.string()}).code, 0);
  const Finished run =
      run_process({LAMINA_SOURCE_DIR "/scripts/gpu_bundle", "try", file("bundle.tar")});
  EXPECT_EQ(run.code, 2) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("lacks libraries"));
  EXPECT_THAT(run.err, HasSubstr("build/test/bin/lamina needs libfmt.so"));
}

}  // namespace
}  // namespace lamina::testing
