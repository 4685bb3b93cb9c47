// `lamina plugin check` on plugins with one fault each: only the check for the fault reports it,
// the exit code is 8 and the program survives.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/json.h"
#include "support/goldens.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/sanitizers.h"
#include "support/temp_dir.h"
#include "zoo.h"

namespace lamina::conformance {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::run_process;

const std::string kProgram = LAMINA_BUILD_DIR "/bin/lamina";

std::string in_zoo(std::string_view name) {
  return std::string(ZOO) + "/" + std::string(name) + ".lamina.so";
}

// With these options a sanitizer does not handle the signals.
const std::string kOwnSignals = "handle_segv=0:handle_sigfpe=0:handle_abort=0:use_sigaltstack=0";

Finished check(const std::string& file, std::vector<std::string> more) {
  more.insert(more.begin(), {kProgram, "plugin", "check", file});
  return run_process(
      more, {.environment = {"ASAN_OPTIONS=" + kOwnSignals, "TSAN_OPTIONS=" + kOwnSignals}});
}

class Zoo : public ::testing::TestWithParam<WrongPlugin> {};

TEST_P(Zoo, IsFoundByTheChecksOfTheMatrixAndNoOther) {
  const WrongPlugin& wrong = GetParam();
  for (const char* other :
       {"all_memory", "endless_plan", "leaks", "constructor", "build_memory", "kernel_memory"})
    if (wrong.file == other)
      LAMINA_SKIP_IF_SANITIZED("memory, time and what runs at load are other things there");
  std::vector<std::string> words = {"--level", std::string(wrong.level), "--json"};
  for (const std::string_view id : wrong.only)
    words.insert(words.end(), {"--only", std::string(id)});
  if (!wrong.golden.empty())
    words.insert(words.end(),
                 {"--golden", LAMINA_SOURCE_DIR "/tests/golden/hf/" + std::string(wrong.golden)});
  const Finished result = check(in_zoo(wrong.file), words);
  EXPECT_EQ(result.code, 8) << result.out << result.err;
  std::set<std::string> expected, found;
  for (const std::string_view id : wrong.caught_by) expected.emplace(id);
  const JsonDocument json = JsonDocument::parse(result.out, "stdout");
  EXPECT_FALSE(json.root().at("conforms").as_bool());
  for (const JsonValue row : json.root().at("checks").elements()) {
    const std::string outcome(row.at("outcome").as_string());
    if (outcome == "pass" || outcome == "skip") continue;
    found.emplace(row.at("id").as_string());
    EXPECT_EQ(outcome, wrong.outcome) << row.at("id").as_string() << row.at("text").as_string();
  }
  EXPECT_EQ(found, expected) << result.out;
}

INSTANTIATE_TEST_SUITE_P(All, Zoo, ::testing::ValuesIn(wrong_plugins()), [](const auto& test) {
  return testing::test_name(std::string(test.param.file));
});

TEST(PluginCheck, ARightPluginConforms) {
  const Finished result = check(in_zoo("none"), {"--level", "full"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nconforms to plugin ABI 0."));
  // A skipped check is listed and does not count as passed.
  EXPECT_THAT(result.out, HasSubstr(" 4 skipped (GRD-3, EQV-6, EQV-7, NUM-3)\n"));
  EXPECT_THAT(result.out, HasSubstr("no small model switches an auxiliary loss on"));
}

TEST(PluginCheck, ARightPluginInCWithItsOwnOpConforms) {
  const Finished result = check(in_zoo("custom_op"), {"--level", "full"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr(" 3 skipped (EQV-6, EQV-7, NUM-3)\n"));
}

TEST(PluginCheck, ARightPluginWithConstantTablesConforms) {
  const Finished result =
      check(in_zoo("constant_tables"), {"--only", "LOD-2", "--only", "LIF-1", "--only", "LIF-2"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(PluginCheck, ALineNamesTheRuleAndHowToSeeItAgain) {
  const Finished result = check(in_zoo("prints"), {"--seed", "7"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(
      result.out,
      HasSubstr("\nLOD-1  FAIL     writes \"plain is here\\x0a\" when it is loaded; use "
                "the host's log\n  [C-4, C-10, F-6]  replay: lamina plugin check " +
                in_zoo("prints") + " --only LOD-1 --here --level quick --seed 7 --threads 1\n"));
  EXPECT_THAT(result.out, HasSubstr(", 1 failed (LOD-1), 1 skipped (EQV-7)\n"));
}

TEST(PluginCheck, ACrashNamesPluginFunctionAndBlock) {
  const Finished result = check(in_zoo("crash"), {"--only", "TRC-2"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, HasSubstr("TRC-2  CRASH    the process ended with exit code 8; "));
  EXPECT_THAT(result.out, HasSubstr("its build of block 'layer' died: segmentation fault"));
}

// LOD-1 captures standard error while it loads the plugin, and gives the exit code alone.
TEST(PluginCheck, ACrashOfInitBlamesThePlugin) {
  const Finished result = check(in_zoo("init_crash"), {});
  EXPECT_EQ(result.code, 8);
  std::istringstream lines(result.out);
  int crashes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  CRASH  ") == line.npos) continue;
    ++crashes;
    EXPECT_THAT(line, ::testing::Not(HasSubstr("please report")));
    if (line.starts_with("LOD-1")) continue;
    EXPECT_THAT(line, HasSubstr("plugin 'org.example.plain' 1.0 ("));
    EXPECT_THAT(line, HasSubstr("died: segmentation fault"));
  }
  EXPECT_GE(crashes, 2) << result.out;
}

TEST(PluginCheck, ABuildThatTakesAllMemoryIsNamed) {
  const Finished result = check(in_zoo("all_memory"), {"--only", "TRC-2"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, HasSubstr("its build of block 'layer' died: segmentation fault"));
}

TEST(PluginCheck, AnExitInsideABuildIsNoEnd) {
  const Finished result = check(in_zoo("exits"), {"--only", "TRC-2"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, HasSubstr("TRC-2  CRASH    the process ended with exit code 8; "));
  EXPECT_THAT(result.out, HasSubstr("its build of block 'layer' called _exit()"));
}

TEST(PluginCheck, ACrashOfAKernelNamesPluginAndOp) {
  const Finished result = check(in_zoo("kernel_crash"), {"--only", "GRD-3"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, HasSubstr("GRD-3  CRASH    the process ended with exit code 8; "));
  EXPECT_THAT(result.out,
              HasSubstr("its forward kernel of op 'plain.doubled' died: segmentation fault"));
}

// Copies a plugin of the zoo to a folder per test, so that its processes belong to one test.
class OwnPlugin {
 public:
  explicit OwnPlugin(const std::string& name) : path_(folder_.path() + "/" + name + ".lamina.so") {
    std::filesystem::copy_file(in_zoo(name), path_);
  }
  const std::string& path() const { return path_; }
  // The processes of the plugin: the kit, checks, and children of the plugin.
  std::size_t num_processes() const;

 private:
  testing::TempDir folder_;
  std::string path_;
};

std::size_t OwnPlugin::num_processes() const {
  std::size_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    // Not with a stream, which throws if the process ends meanwhile.
    std::FILE* const file = std::fopen((entry.path() / "cmdline").c_str(), "r");
    if (!file) continue;
    std::array<char, 4096> bytes;
    const std::string_view words(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
    out += words.find(path_) != words.npos;
  }
  return out;
}

TEST(PluginCheck, AChangeOfTheProcessIsNamed) {
  const Finished result = check(in_zoo("chdir"), {"--only", "LOD-1", "--only", "FIL-2"});
  EXPECT_THAT(
      result.out,
      HasSubstr(
          "FIL-2  FAIL     calls 'chdir'; the working directory belongs to the program\n  ["));
  EXPECT_THAT(result.out, HasSubstr("LOD-1  FAIL     block 'layer': its build changes the working "
                                    "directory from '"));
  EXPECT_THAT(result.out,
              HasSubstr("plugin 'org.example.plain' 1.0\n  these belong to the program, "
                        "which has restored them; the plugin must not change them"));
}

TEST(PluginCheck, ABuildThatWaitsCostsSecondsInAll) {
  LAMINA_SKIP_IF_SANITIZED("time is another thing there");
  for (const char* name : {"sleeps", "closes_and_sleeps"}) {
    const OwnPlugin plugin(name);
    const auto start = std::chrono::steady_clock::now();
    const Finished result = check(plugin.path(), {});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(result.code, 8) << result.out;
    EXPECT_LT(took.count(), 60) << result.out;
    EXPECT_THAT(result.out,
                HasSubstr("LOD-1  TIMEOUT  waited for 7 s without using the processor"));
    EXPECT_EQ(plugin.num_processes(), 0u);
    // No output if it has closed standard error.
    if (name != std::string("sleeps")) continue;
    EXPECT_THAT(result.out, HasSubstr("its build of block 'layer' has not returned for 5 seconds"));
    EXPECT_THAT(result.out,
                HasSubstr("(its build of block 'layer' does not return, see an earlier check)"));
  }
}

TEST(PluginCheck, ProcessesOfAPluginEndWithTheCheck) {
  const OwnPlugin plugin("fork");
  const Finished result = check(plugin.path(), {});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, HasSubstr("LOD-1  FAIL     starts a process when it describes a model; "
                                    "it must not start any (C-10)"));
  EXPECT_EQ(plugin.num_processes(), 0u);
}

// A kit that is killed leaves no process.
TEST(PluginCheck, ChecksEndWithTheKit) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    const OwnPlugin plugin("sleeps");
    const pid_t kit = fork();
    if (kit == 0) {
      const int nothing = open("/dev/null", O_RDWR);
      dup2(nothing, STDOUT_FILENO);
      dup2(nothing, STDERR_FILENO);
      std::signal(SIGINT, SIG_DFL);
      execl(kProgram.c_str(), kProgram.c_str(), "plugin", "check", plugin.path().c_str(),
            static_cast<char*>(nullptr));
      _exit(127);
    }
    const auto wait_for = [](auto&& condition) {
      for (int i = 0; i < 500 && !condition(); ++i) usleep(20'000);
      return condition();
    };
    EXPECT_TRUE(wait_for([&] { return plugin.num_processes() >= 2; }));
    kill(kit, signal);
    int status = 0;
    waitpid(kit, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal;
    EXPECT_TRUE(wait_for([&] { return plugin.num_processes() == 0; })) << signal;
  }
}

TEST(PluginCheck, AFileThatIsNoPluginIsRefused) {
  const testing::TempDir folder;
  const std::string text = folder.write("text.lamina.so", "hello"),
                    empty = folder.write("a.so", "");
  for (const std::string& file : {text, empty}) {
    const Finished result = check(file, {});
    EXPECT_EQ(result.code, 8) << file;
    EXPECT_THAT(result.out, HasSubstr("FIL-1  FAIL"));
    EXPECT_THAT(result.out, HasSubstr("does not conform"));
  }
}

TEST(PluginCheck, ACutFileIsRefused) {
  std::ifstream in(in_zoo("none"), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const testing::TempDir folder;
  for (const std::size_t bytes : {std::size_t{64}, whole.size() / 2, whole.size() - 1})
    EXPECT_EQ(check(folder.write("cut.lamina.so", whole.substr(0, bytes)), {}).code, 8) << bytes;
}

TEST(PluginCheck, AModelThatTheFamilyRefusesIsReportedOnce) {
  const testing::TempDir folder;
  const std::string model =
      folder.write("wrong.toml",
                   "family = \"plain\"\n[model]\nvocab_size = 5\nhidden_size = 4\n"
                   "num_hidden_layers = 2\nhiden = 3\n");
  const Finished result = check(in_zoo("none"), {"--model", model});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.out, HasSubstr(", 1 failed (TRC-2), "));
  EXPECT_THAT(result.out, HasSubstr("a small model does not open, see TRC-2: "));
}

TEST(PluginCheck, AModelOfAnotherFamilyIsAnErrorOfTheCommandLine) {
  const testing::TempDir folder;
  const std::string model =
      folder.write("other.toml", "family = \"other\"\n[model]\nvocab_size = 5\n");
  const Finished result = check(in_zoo("none"), {"--model", model});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("is a model of family 'other', which none.lamina.so does not have\n"
                        "  its manifest lists plain"));
}

TEST(PluginCheck, FamiliesOfTheManifestAreComparedWithThePlugins) {
  const testing::TempDir folder;
  const std::string model = folder.write(
      "model.toml",
      "family = \"plain\"\n[model]\nvocab_size = 5\nhidden_size = 4\nnum_hidden_layers = 2\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"--model", model}}) {
    const Finished result = check(in_zoo("other_family"), words);
    EXPECT_EQ(result.code, 8);
    EXPECT_THAT(result.out,
                HasSubstr("registers the families plain_too, but its manifest lists plain"));
  }
}

TEST(PluginCheck, AnUnknownCheckIsAnErrorOfTheCommandLine) {
  EXPECT_EQ(check(in_zoo("none"), {"--only", "TRC-99"}).code, 2);
}

}  // namespace
}  // namespace lamina::conformance
