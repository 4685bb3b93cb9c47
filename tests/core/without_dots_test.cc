// Paths without "." and "..".
#include "core/without_dots.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

TEST(WithoutDots, Example) {
  EXPECT_EQ(without_dots("configs/train/../models//./a.toml"), "configs/models/a.toml");
}

TEST(WithoutDots, PathsWithoutLinksAreAsLexicallyNormalReturnsThem) {
  for (const char* path :
       {"", ".", "./", "..", "../", "a", "a/", "a/.", "a/..", "a/b/..", "a/../..", "../a/../b", "/",
        "/..", "/../a", "/a/..", "/a//b/./..//c/"}) {
    EXPECT_EQ(without_dots(path).string(), fs::path(path).lexically_normal().string()) << path;
  }
}

TEST(WithoutDots, AFolderAboveALinkIsTheOneAboveItsTarget) {
  const testing::TempDir dir;
  dir.write("real/data.txt", "real");
  dir.write("other/data.txt", "other");
  fs::create_directory(dir / "real/sub");
  fs::create_directory_symlink("../real/sub", dir / "other/link");
  const std::string link = dir / "other/link";
  for (const std::string& path :
       {link + "/../data.txt", link + "/.././data.txt", link + "/x/../../data.txt",
        link + "/../sub/../data.txt", dir / "real/../other/link/../data.txt"}) {
    EXPECT_EQ(without_dots(path).string(), link + "/../data.txt") << path;
    EXPECT_TRUE(fs::equivalent(without_dots(path), dir / "real/data.txt")) << path;
  }
  EXPECT_EQ(without_dots(link + "/../../real"), link + "/../../real");
  EXPECT_EQ(without_dots(link + "/data.txt"), link + "/data.txt");
}

TEST(WithoutDots, AWildcardCanMatchALink) {
  EXPECT_EQ(without_dots("a/./*/../b"), "a/*/../b");
  EXPECT_EQ(without_dots("a/b/../*.txt"), "a/*.txt");
}

}  // namespace
}  // namespace lamina
