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

TEST(DirectoryLock, IsOfTheFileThatOthersFind) {
  TempDir dir;
  const DirectoryLock lock(dir.path());
  fs::remove(dir / "lock");  // by somebody who took it for a stale one
  const DirectoryLock other(dir.path());
  EXPECT_THROW(DirectoryLock(dir.path()), UserError);
}

}  // namespace
}  // namespace lamina::io
