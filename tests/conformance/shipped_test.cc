// Every plugin of this build keeps to the contract.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "support/goldens.h"
#include "support/paths.h"
#include "support/process.h"

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

TEST(Shipped, PluginsConform) {
  ASSERT_FALSE(shipped().empty());
  for (const fs::path& plugin : shipped()) {
    const auto result =
        testing::run_process({LAMINA_BUILD_DIR "/bin/lamina", "plugin", "check", plugin.string()});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
  }
}

}  // namespace
}  // namespace lamina::conformance
