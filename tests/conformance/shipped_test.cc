// Every plugin of this build, and every example plugin, conforms.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/goldens.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::conformance {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shipped() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(LAMINA_BUILD_DIR "/lib/lamina/plugins"))
    if (entry.path().string().ends_with(".lamina.so")) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

void expect_conforms(const fs::path& plugin, const std::vector<std::string>& options) {
  std::vector<std::string> words = {LAMINA_BUILD_DIR "/bin/lamina", "plugin", "check",
                                    plugin.string()};
  words.insert(words.end(), options.begin(), options.end());
  const auto result = testing::run_process(words);
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

void expect_conform(const std::vector<std::string>& options) {
  ASSERT_FALSE(shipped().empty());
  for (const fs::path& plugin : shipped()) expect_conforms(plugin, options);
}

TEST(Shipped, PluginsConform) { expect_conform({}); }

TEST(Examples, PluginsConformAtEveryLevel) {
  const fs::path examples = fs::path(LAMINA_SOURCE_DIR) / "examples/plugins";
  for (const fs::directory_entry& example : fs::directory_iterator(examples)) {
    const std::string name = example.path().filename();
    expect_conforms(
        fs::path(LAMINA_BUILD_DIR "/tests/plugins") / (name + ".lamina.so"),
        {"--level", "full", "--model", (example.path() / "check" / (name + ".toml")).string()});
  }
}

// The families of our tests have features that no built-in family has.
TEST(TestFamilies, ConformAtEveryLevel) {
  for (const char* name : {"features", "recurrences", "moe", "streams", "docs_experts"})
    expect_conforms(LAMINA_BUILD_DIR "/tests/plugins/" + (name + std::string(".lamina.so")),
                    {"--level", "full"});
}

// A small model with one line of its description replaced.
struct ChangedModel {
  const char *plugin, *family, *model, *line, *by;
};

TEST(Shipped, ModelsWithOptionsThatTheRulesExemptConform) {
  static constexpr ChangedModel kChanged[] = {
      {"llama", "llama2", "llama2_deep", "[model]", "[model]\nkv_dtype = \"int8\""},
      {"llama", "llama2", "llama2_deep", "[model]", "[model]\nkv_dtype = \"fp8\""},
      {"llama", "llama2", "llama2_engram", "[model]", "[model]\nengram_across_documents = true"},
      {"qwen", "qwen3_next", "qwen3_next_predicts", "[model]",
       "[model]\nrecurrence_across_documents = true"},
      {"mistral", "mixtral", "mixtral_predicts", "[model]", "[model]\nuse_random_routing = true"},
      {"mistral", "mixtral", "mixtral_predicts", "[model]", "[model]\ncapacity_factor = 0.5"},
      {"mistral", "mixtral", "mixtral_predicts", "num_local_experts = 4",
       "num_local_experts = 1\nnum_experts_per_tok = 1"},
      {"qwen", "qwen3_5", "qwen3_5", "[model]", "[model]\ninitializer = \"maxtext\""},
  };
  for (const ChangedModel& changed : kChanged) {
    SCOPED_TRACE(changed.by);
    const testing::TempDir folder;
    const fs::path source = fs::path(LAMINA_SOURCE_DIR "/plugins") / changed.plugin / "check" /
                            (std::string(changed.model) + ".toml");
    std::ifstream in(source);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::string line = changed.line;
    ASSERT_NE(text.find(line), text.npos) << source;
    text.replace(text.find(line), line.size(), changed.by);
    expect_conforms(
        fs::path(LAMINA_BUILD_DIR "/lib/lamina/plugins") /
            (std::string(changed.plugin) + ".lamina.so"),
        {"--family", changed.family, "--level", "full", "--only", "EQV-1", "--only", "EQV-2",
         "--only", "EQV-7", "--only", "GRD-2", "--model", folder.write("changed.toml", text)});
  }
}

// Checks that other tests do not run with the same functions on the same models.
TEST(Shipped, PluginsConformToOtherHostsAndSurviveFailures) {
  std::vector<std::string> options = {"--level", "full"};
  for (const char* id : {"ABI-2", "ABI-3", "ABI-4", "SCH-3", "SCH-4", "ERR-1", "ERR-2", "ERR-3",
                         "LIF-1", "LIF-2", "THR-1", "PRF-1", "SEC-1"})
    options.insert(options.end(), {"--only", id});
  expect_conform(options);
}

}  // namespace
}  // namespace lamina::conformance
