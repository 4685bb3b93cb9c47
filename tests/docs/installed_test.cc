// An installation has everything that its pages point to: links, and paths in the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "docs/page.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

using lamina::testing::text_of;

// Paths of the source tree that an installation lacks.
bool is_of_the_source_tree(const std::string& path) {
  static const char* const kFolders[] = {
      "host/",           // the program's sources, for developers of the host
      "scripts/",        // tools of the source tree
      "plugin_api/abi",  // records for developers of the contract
      "tests/",          // all tests but the examples of pages, and one golden case
  };
  if (path.starts_with("tests/docs/docs_experts_")) return true;  // built by tests, with mistakes
  if (path.starts_with("tests/docs/") || path.starts_with("tests/golden/hf/qwen3_moe_norm"))
    return false;
  return std::ranges::any_of(kFolders,
                             [&](const char* folder) { return path.starts_with(folder); });
}

// True for "configs/models/NAME.toml".
bool is_placeholder(const std::string& path) {
  return std::regex_search(path, std::regex("/[A-Z]+\\.toml$"));
}

// An installation of this build.
class Installation : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prefix_ = std::make_unique<testing::TempDir>();
    const testing::Finished made = testing::run_process(
        {LAMINA_CMAKE, "--install", LAMINA_BUILD_DIR, "--prefix", prefix_->path()});
    ASSERT_EQ(made.code, 0) << made.out << made.err;
  }
  static void TearDownTestSuite() { prefix_.reset(); }

  static fs::path root() { return fs::path(prefix_->path()) / "share/lamina"; }
  static fs::path headers() { return fs::path(prefix_->path()) / "include"; }

  // Files below the installation with one of the endings, except the changes of past versions.
  static std::vector<fs::path> files(const std::vector<std::string>& endings) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(prefix_->path())) {
      const std::string name = entry.path().filename();
      if (name != "CHANGELOG.md" && std::ranges::any_of(endings, [&](const std::string& ending) {
            return name.ends_with(ending);
          }))
        out.push_back(entry.path());
    }
    return out;
  }

 private:
  static inline std::unique_ptr<testing::TempDir> prefix_;
};

// All matches of the pattern's first group.
std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    out.insert((*at)[1]);
  return out;
}

TEST_F(Installation, HasTheTargetOfEveryLink) {
  int links = 0;
  for (const fs::path& page : files({".md"}))
    for (const std::string& link : matches(text_of(page), R"(\]\(([^)#\s]+)(#[^)]*)?\))")) {
      if (link.find("://") != link.npos || link.find("(") != link.npos) continue;
      ++links;
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << ": " << link;
    }
  EXPECT_GT(links, 200);
}

TEST_F(Installation, HasEveryPathThatItsFilesName) {
  int paths = 0;
  for (const fs::path& file : files({".md", ".h", ".cc", ".c", "CMakeLists.txt", ".py"}))
    for (std::string path :
         matches(text_of(file),
                 R"((?:^|[\s`"(])((?:docs|examples|tests|plugins|configs|plugin_api|host|scripts)/)"
                 R"([A-Za-z0-9_./-]*[A-Za-z0-9_]))")) {
      if (is_of_the_source_tree(path) || is_placeholder(path)) continue;
      ++paths;
      const bool header = path.starts_with("plugin_api/include/");
      EXPECT_TRUE(header ? fs::exists(headers() / path.substr(19)) : fs::exists(root() / path))
          << file << ": " << path;
    }
  EXPECT_GT(paths, 50);
}

TEST_F(Installation, HasEveryHeaderThatItsFilesName) {
  for (const fs::path& file : files({".md", ".h", ".cc", ".c"}))
    for (const std::string& header :
         matches(text_of(file), R"((?:^|[\s`"(<])(lamina/(?:sdk|ext)/[a-z_/]+\.h))"))
      EXPECT_TRUE(fs::exists(headers() / header)) << file << ": " << header;
}

TEST_F(Installation, VerifiesItsGoldenCase) {
  const testing::Finished result =
      testing::run_process({(root() / "../../bin/lamina").lexically_normal().string(), "verify",
                            (root() / "tests/golden/hf/qwen3_moe_norm").string()});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

}  // namespace
}  // namespace lamina
