// scripts/gpu_check from bundle to report, on the emulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
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
  static std::string status(const JsonValue& part) {
    return std::string(part.at("status").as_string());
  }

  TempDir temp_;
  fs::path tree_ = temp_.path();
  std::vector<JsonDocument> report_;
};

TEST_F(GpuCheck, ReportsEachPartInSeveralCalls) {
  const Finished bundle = run_process({LAMINA_SOURCE_DIR "/scripts/gpu_check", "bundle",
                                       "--emulated", "--limit", "200", file("bundle.tar.xz")},
                                      {.environment = {"XZ_OPT=-0 -T0"}});
  ASSERT_EQ(bundle.code, 0) << bundle.out << bundle.err;

  const Finished first = check({"--bundle", file("bundle.tar.xz"), "--only", "ops"});
  EXPECT_EQ(first.code, 0) << first.out << first.err;
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

}  // namespace
}  // namespace lamina::testing
