// One writer at a time in a directory.
#include "io/directory_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

TEST(DirectoryLock, Example) {
  TempDir dir;
  const DirectoryLock lock(dir / "runs/first/");
  EXPECT_EQ(lock.problem(), "");
  EXPECT_TRUE(dir.read("runs/first/lock").starts_with(fmt::format("process {} on ", ::getpid())));
}

TEST(DirectoryLock, ASecondOneIsRefusedAndSaysWhoHoldsIt) {
  TempDir dir;
  const DirectoryLock lock(dir.path());
  EXPECT_ERROR_SAYS(DirectoryLock(dir.path()), ExitCode::checkpoint,
                    dir.path() + ": is in use by process " + std::to_string(::getpid()) + " on ");
}

TEST(DirectoryLock, EndsWithItsProcessHoweverThatEnds) {
  TempDir dir;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const DirectoryLock lock(dir.path());
    if (::write(ready[1], "x", 1) == 1) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(DirectoryLock(dir.path()), UserError);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(DirectoryLock(dir.path()).problem(), "");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(DirectoryLock, ADanglingLinkIsNamed) {
  TempDir dir;
  fs::create_symlink("gone", dir / "link");
  for (const char* run : {"link", "link/", "link/first/run"})
    EXPECT_ERROR_SAYS(DirectoryLock(dir / run), ExitCode::usage,
                      dir / "link" +
                          ": is a dangling link\n"
                          "  remove the link, or give the name of its target");
}

// A disk that fails now is not a link without a target.
TEST(DirectoryLock, ALinkWhoseTargetCannotBeLookedUpDoesNotDangle) {
  TempDir dir;
  fs::create_symlink(std::string(300, 'x'), dir / "link");
  EXPECT_ERROR_SAYS(DirectoryLock(dir / "link/run"), ExitCode::checkpoint,
                    "cannot be created: file name too long\n"
                    "  check the disk and the permissions of the folder");
}

TEST(DirectoryLock, LeavesNoDirectoryThatItMadeForNothing) {
  TempDir dir;
  { const DirectoryLock lock(dir / "runs/first"); }
  EXPECT_FALSE(fs::exists(dir / "runs"));
  {
    const DirectoryLock lock(dir / "runs/first");
    dir.write("runs/first/notes", "x");
  }
  EXPECT_TRUE(fs::exists(dir / "runs/first/notes"));
  { const DirectoryLock lock(dir / "runs/first"); }
  EXPECT_TRUE(fs::exists(dir / "runs/first/lock"));
}

TEST(DirectoryLock, NoticesThatItsDirectoryWasMovedOrReplaced) {
  TempDir dir;
  DirectoryLock lock(dir / "run");
  EXPECT_FALSE(lock.renew());
  fs::rename(dir / "run", dir / "old");
  const std::string moved = dir / "run" + ": was moved or replaced while this process used it";
  EXPECT_ERROR_SAYS(lock.renew(), ExitCode::checkpoint, moved);
  EXPECT_ERROR_SAYS(lock.renew(), ExitCode::checkpoint, "it is now at " + dir / "old");
  fs::create_directory(dir / "run");
  EXPECT_ERROR_SAYS(lock.renew(), ExitCode::checkpoint, moved);
  dir.write("run/lock", "");
  EXPECT_ERROR_SAYS(lock.renew(), ExitCode::checkpoint, moved);
  fs::remove_all(dir / "run");
  fs::rename(dir / "old", dir / "run");
  EXPECT_FALSE(lock.renew());
}

TEST(DirectoryLock, IsMadeAgainWhereItWasRemoved) {
  TempDir dir;
  DirectoryLock lock(dir / "run");
  fs::remove(dir / "run/lock");
  EXPECT_TRUE(lock.renew());
  EXPECT_THROW(DirectoryLock(dir / "run"), UserError);
  fs::remove_all(dir / "run");
  EXPECT_TRUE(lock.renew());
  EXPECT_FALSE(lock.renew());
  EXPECT_THROW(DirectoryLock(dir / "run"), UserError);
}

TEST(DirectoryLock, AnotherThatTookItsPlaceKeepsIt) {
  TempDir dir;
  DirectoryLock lock(dir / "run");
  fs::remove_all(dir / "run");
  const DirectoryLock other(dir / "run");
  EXPECT_ERROR_SAYS(lock.renew(), ExitCode::checkpoint, "was moved or replaced");
}

TEST(DirectoryLock, LocksTheFileThatOthersFind) {
  TempDir dir;
  const DirectoryLock lock(dir.path());
  fs::remove(dir / "lock");  // a user took it for a stale lock
  const DirectoryLock other(dir.path());
  EXPECT_THROW(DirectoryLock(dir.path()), UserError);
}

}  // namespace
}  // namespace lamina::io
