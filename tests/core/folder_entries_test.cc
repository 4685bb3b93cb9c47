// Lists of folders that may be absent.
#include "core/folder_entries.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "support/expect_error.h"
#include "support/few_descriptors.h"
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

TEST(FolderEntries, NoneSeemAbsentForLackOfDescriptors) {
  const testing::TempDir dir;
  dir.write("a.txt", "a");
  const testing::FewDescriptors none(0);
  EXPECT_ERROR_SAYS(folder_entries(dir.path()), ExitCode::checkpoint,
                    "cannot be listed: too many open files");
}

}  // namespace
}  // namespace lamina
