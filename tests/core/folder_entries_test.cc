// Lists of folders that may be absent.
#include "core/folder_entries.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "support/temp_dir.h"

namespace lamina {
namespace {

TEST(FolderEntries, Example) {
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/a.txt") << "a";
  std::filesystem::create_directory(dir.path() + "/b");
  std::set<std::string> names;
  for (const auto& entry : folder_entries(dir.path())) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"a.txt", "b"}));
}

TEST(FolderEntries, AnAbsentFolderHasNone) {
  const testing::TempDir dir;
  EXPECT_TRUE(folder_entries(dir.path() + "/absent").empty());
}

TEST(FolderEntries, AFileHasNone) {
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/a.txt") << "a";
  EXPECT_TRUE(folder_entries(dir.path() + "/a.txt").empty());
}

}  // namespace
}  // namespace lamina
