// Every file under configs/ is accepted without a message.
#include <gtest/gtest.h>

#include <filesystem>

#include "config/run_config.h"
#include "support/paths.h"

namespace lamina::config {
namespace {

std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(LAMINA_SOURCE_DIR "/" + folder))
    out.push_back(entry.path());
  return out;
}

TEST(ShippedConfigs, ModelsNameTheirFamilyAndHaveKeys) {
  std::vector<std::filesystem::path> files = files_in("configs/models");
  EXPECT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    ModelSource model = load_model(file);
    EXPECT_NE(model.family, "") << file;
    EXPECT_FALSE(model.raw.entries.empty()) << file;
  }
}

TEST(ShippedConfigs, RunsAreComplete) {
  for (const std::filesystem::path& file : files_in("configs/train"))
    EXPECT_NO_THROW(load_run(file)) << file;
}

}  // namespace
}  // namespace lamina::config
