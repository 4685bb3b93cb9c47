// The files of a path, a directory or a glob; no file is skipped without a message.
#include "data/find_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/few_descriptors.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;
using Strings = std::vector<std::string>;

// A folder b with two files, a hidden file and a file in a subfolder.
void write_folder(const TempDir& dir) {
  for (const char* name : {"b/2.txt", "b/1.txt", "b/.hidden", "b/deep/0.txt", "a.txt"})
    dir.write(name, "");
}

TEST(FindFiles, Example) {
  TempDir dir;
  write_folder(dir);
  EXPECT_EQ(find_files(dir / "a.txt"), Strings{dir / "a.txt"});
  EXPECT_EQ(find_files(dir / "b"),
            (Strings{dir / "b/1.txt", dir / "b/2.txt", dir / "b/deep/0.txt"}));
  EXPECT_EQ(find_files(dir / "b/*.txt"), (Strings{dir / "b/1.txt", dir / "b/2.txt"}));
}

TEST(FindFiles, AFolderWithoutADescriptorIsTheLimits) {
  const TempDir dir;
  dir.write("a.txt", "a");
  const testing::FewDescriptors none(0);
  EXPECT_ERROR_SAYS(find_files(dir.path()), ExitCode::data,
                    "cannot be listed: too many open files\n  raise the limit on open files");
}

TEST(FindFiles, JsonIsKnownByItsName) {
  TempDir dir;
  write_folder(dir);
  EXPECT_EQ(find_json_file({dir / "b", dir / "a.txt"}), "");
  EXPECT_EQ(find_json_file({dir.write("a.json.txt", ""), dir.write("b/x.jsonl.zst", ""),
                            dir.write("c.json", "")}),
            dir / "b/x.jsonl.zst");
  EXPECT_EQ(find_json_file({dir / "*.json"}), dir / "c.json");
}

TEST(FindFiles, AGlobHasEveryMatchAsItWereNamed) {
  TempDir dir;
  write_folder(dir);
  const Strings all = find_files(dir / "b");
  EXPECT_EQ(find_files(dir / "b/*"), all);
  EXPECT_EQ(find_files(dir / "?"), all);
  EXPECT_EQ(find_files(dir / "*/"), all);
  EXPECT_EQ(find_files(dir / "*/deep/0.txt"), Strings{dir / "b/deep/0.txt"});
  EXPECT_EQ(find_files(dir / "[a-c]/d*/*"), Strings{dir / "b/deep/0.txt"});
  EXPECT_EQ(find_files(dir / "b/.h*"), Strings{dir / "b/.hidden"});
}

TEST(FindFiles, AFileWhoseNameLooksLikeAGlobIsThatFile) {
  TempDir dir;
  dir.write("[1].txt", "");
  dir.write("1.txt", "");
  EXPECT_EQ(find_files(dir / "[1].txt"), Strings{dir / "[1].txt"});
}

TEST(FindFiles, SaysWhichPathIsMissing) {
  TempDir dir;
  EXPECT_ERROR_SAYS(find_files(dir / "none.txt"), ExitCode::data,
                    "none.txt: no such file or directory\n  check the path; it is relative to");
  EXPECT_ERROR_SAYS(find_files(dir / "*.txt"), ExitCode::data, "*.txt: matches no file");
  EXPECT_ERROR_SAYS(find_files(dir.path()), ExitCode::data, "is a directory without files");
  EXPECT_ERROR_SAYS(find_files(""), ExitCode::data, "'': is not a path");
  EXPECT_ERROR_SAYS(find_files("-"), ExitCode::data,
                    "-: stdin cannot be read here, because data are read more than once\n"
                    "  write them to a file first; a file of that name is ./-");
  fs::create_directory(dir / "empty");
  EXPECT_ERROR_SAYS(find_files(dir / "*"), ExitCode::data,
                    "matches only directories without files");
}

TEST(FindFiles, LinkedFoldersAreReadOnce) {
  TempDir dir;
  write_folder(dir);
  dir.write("elsewhere/e.txt", "");
  fs::create_directory_symlink("..", dir / "b/deep/up");
  fs::create_directory_symlink(dir / "elsewhere", dir / "b/link");
  fs::create_directory_symlink(dir / "elsewhere", dir / "b/second");
  fs::create_symlink(dir / "a.txt", dir / "b/one_more.txt");
  EXPECT_EQ(find_files(dir / "b"), (Strings{dir / "b/1.txt", dir / "b/2.txt", dir / "b/deep/0.txt",
                                            dir / "b/link/e.txt", dir / "b/one_more.txt"}));
}

TEST(UnreadableData, DanglingLinksAndFifosAreNamed) {
  TempDir dir;
  write_folder(dir);
  fs::create_symlink("nowhere", dir / "b/gone.txt");
  for (const char* pattern : {"b", "b/*", "b/gone.txt", "b/gone*"})
    EXPECT_USER_ERROR(find_files(dir / pattern), ExitCode::data,
                      dir / "b/gone.txt" +
                          ": is a dangling link\n"
                          "  remove it, or restore its target");
  fs::remove(dir / "b/gone.txt");
  ASSERT_EQ(::mkfifo((dir / "b/fifo").c_str(), 0600), 0);
  EXPECT_ERROR_SAYS(find_files(dir / "b"), ExitCode::data,
                    "b/fifo: is a FIFO; expected text files");
  fs::remove(dir / "b/fifo");
  fs::create_symlink("round", dir / "b/round");
  EXPECT_ERROR_SAYS(find_files(dir / "b"), ExitCode::data, "b/round: cannot be read: too many");
}

// Root may read everything, so the test process changes to another user.
TEST(UnreadableData, AFolderWithoutPermissionIsNamed) {
  TempDir dir;
  write_folder(dir);
  fs::permissions(dir.path(), fs::perms::all);
  fs::permissions(dir / "b/deep", fs::perms::none);
  const auto as_nobody = [&](const char* pattern) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    try {
      find_files(dir / pattern);
      ::_exit(0);
    } catch (const Error& e) {
      ::write(STDERR_FILENO, e.what(), std::string_view(e.what()).size());
      ::_exit(static_cast<int>(e.code()));
    }
  };
  for (const char* pattern : {"b", "*", "b/*"})
    EXPECT_EXIT(as_nobody(pattern), ::testing::ExitedWithCode(5),
                "b/deep: cannot be listed: permission denied");
  for (const char* pattern : {"b/*/0.txt", "b/deep/0.txt", "b/deep/*"})
    EXPECT_EXIT(as_nobody(pattern), ::testing::ExitedWithCode(5),
                "b/deep/.*: cannot be read: permission denied");
  fs::permissions(dir / "b/deep", fs::perms::all);
}

}  // namespace
}  // namespace lamina::data
