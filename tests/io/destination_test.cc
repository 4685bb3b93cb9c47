// Output files named by the user: links are followed, devices and pipes are not replaced.
#include "io/destination.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "io/durable_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::io {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

mode_t kind_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : 0;
}

std::string read_pipe(int fd) {
  std::string out(64, '\0');
  const ssize_t n = ::read(fd, out.data(), out.size());
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

TEST(Destination, Example) {
  TempDir dir;
  const Destination destination = destination_of(dir / "new.txt");
  EXPECT_FALSE(destination.in_place);
  EXPECT_EQ(destination.path, dir / "new.txt");
}

TEST(Destination, ALinkIsWrittenThrough) {
  TempDir dir;
  dir.write("target", "before");
  fs::create_symlink("target", dir / "link");
  fs::create_symlink("link", dir / "second");
  write_durably(dir / "second", "after", NamedBy::user);
  EXPECT_EQ(dir.read("target"), "after");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_TRUE(fs::is_symlink(dir / "second"));
}

TEST(Destination, AFifoGivesItsReaderTheBytes) {
  TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] {
    const int fd = ::open((dir / "fifo").c_str(), O_RDONLY);
    got = read_pipe(fd);
    ::close(fd);
  });
  write_durably(dir / "fifo", "through", NamedBy::user);
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_EQ(kind_of(dir / "fifo"), mode_t{S_IFIFO});
}

TEST(Destination, ADeviceStaysADevice) {
  TempDir dir;
  const std::string node = dir / "node", full = dir / "full";
  if (::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0 ||
      ::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0 || ::access(node.c_str(), W_OK))
    GTEST_SKIP() << "device nodes cannot be made here";
  fs::create_symlink("node", dir / "link");
  for (const std::string& path : {node, dir / "link"})
    EXPECT_EQ(write_durably(path, "text", NamedBy::user).num_bytes, 4U);
  EXPECT_EQ(kind_of(node), mode_t{S_IFCHR});
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_ERROR_SAYS(write_durably(full, "text", NamedBy::user), ExitCode::checkpoint,
                    "full: cannot be written after 0 bytes: no space left on device");
  EXPECT_EQ(kind_of(full), mode_t{S_IFCHR});
}

TEST(Destination, ADescriptorOfThisProcessIsWrittenWhereItIs) {
  TempDir dir;
  const int fd = ::open((dir / "log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(fd, "first ", 6), 6);
  for (const char* folder : {"/dev/fd/", "/proc/self/fd/"})
    write_durably(folder + std::to_string(fd), "more ", NamedBy::user);
  fs::create_symlink("/dev/fd/" + std::to_string(fd), dir / "link");
  write_durably(dir / "link", "end", NamedBy::user);
  EXPECT_EQ(dir.read("log"), "first more more end");
  ::close(fd);
  EXPECT_ERROR_SAYS(destination_of("/dev/fd/" + std::to_string(fd)), ExitCode::usage,
                    "is not open for writing");
}

TEST(Destination, PathsThatCannotHoldAFileAreRefused) {
  TempDir dir;
  fs::create_directory(dir / "folder");
  fs::create_symlink("nowhere", dir / "dangling");
  fs::create_symlink("loop", dir / "loop");
  const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  (dir / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_ERROR_SAYS(destination_of(""), ExitCode::usage, "\"\": must not be empty");
  EXPECT_ERROR_SAYS(destination_of(dir / "folder"), ExitCode::usage,
                    "folder: is a directory; expected a regular file, a FIFO or a character "
                    "device\n  give a file inside it");
  EXPECT_ERROR_SAYS(destination_of(dir / "socket"), ExitCode::usage,
                    "socket: is a socket; expected");
  EXPECT_ERROR_SAYS(destination_of("-"), ExitCode::usage,
                    "-: is not accepted as a file name\n  write to stdout with /dev/stdout, or to "
                    "a file of that name "
                    "with ./-");
  EXPECT_ERROR_SAYS(destination_of(dir / "dangling"), ExitCode::usage,
                    "dangling: is a dangling link: no such file or directory");
  EXPECT_ERROR_SAYS(destination_of(dir / "loop"), ExitCode::usage, "loop: is a dangling link");
  fs::create_symlink(std::string(300, 'x'), dir / "far");
  EXPECT_ERROR_SAYS(destination_of(dir / "far"), ExitCode::checkpoint,
                    "far: cannot be written: file name too long");
  ::close(server);
}

// Ends the process with the code and the text of the error.
[[noreturn]] void exit_with_error_of(const std::string& path) {
  try {
    destination_of(path);
  } catch (const Error& e) {
    [[maybe_unused]] const ssize_t n =
        ::write(STDERR_FILENO, e.what(), std::string_view(e.what()).size());
    ::_exit(static_cast<int>(e.code()));
  }
  ::_exit(0);
}

// Root may write everything, so the test process changes to another user.
TEST(Destination, AFileThatMayNotBeWrittenIsAnErrorOfTheDisk) {
  TempDir dir;
  const std::string file = dir.write("file", "before");
  fs::permissions(dir.path(), fs::perms::all);
  fs::permissions(file, fs::perms::owner_read | fs::perms::others_read);
  const auto as_nobody = [&] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    exit_with_error_of(file);
  };
  EXPECT_EXIT(as_nobody(), ::testing::ExitedWithCode(4),
              "file: cannot be written: permission denied\n  change its permissions, or choose");
}

// Makes a folder read-only for this process alone. Returns false if it may not.
bool make_read_only(const std::string& folder) {
  const char* path = folder.c_str();
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(path, path, nullptr, MS_BIND, nullptr) == 0 &&
         ::mount(path, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

TEST(Destination, AFileOfAReadOnlyFileSystemIsAnErrorOfTheDisk) {
  TempDir dir;
  const std::string file = dir.write("file", "before");
  const pid_t probe = ::fork();
  if (probe == 0) ::_exit(make_read_only(dir.path()) ? 0 : 1);
  int status = 1;
  ::waitpid(probe, &status, 0);
  if (status != 0) GTEST_SKIP() << "file systems cannot be mounted here";
  EXPECT_EXIT(make_read_only(dir.path());
              exit_with_error_of(file), ::testing::ExitedWithCode(4),
              "file: cannot be written: read-only file system\n  choose a name on another");
}

TEST(Destination, ABlockDeviceIsRefused) {
  TempDir dir;
  if (::mknod((dir / "disk").c_str(), S_IFBLK | 0600, ::makedev(7, 99)) != 0)
    GTEST_SKIP() << "device nodes cannot be made here";
  EXPECT_ERROR_SAYS(destination_of(dir / "disk"), ExitCode::usage, "disk: is a block device");
}

TEST(Destination, PermissionsOfAReplacedFileStay) {
  TempDir dir;
  dir.write("secret", "before");
  fs::permissions(dir / "secret", fs::perms::owner_read | fs::perms::owner_write);
  write_durably(dir / "secret", "after", NamedBy::user);
  EXPECT_EQ(dir.read("secret"), "after");
  EXPECT_EQ(fs::status(dir / "secret").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(DurableFile, NeverReplacesADeviceOrAFifo) {
  TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "config.toml").c_str(), 0600), 0);
  EXPECT_ERROR_SAYS(write_durably(dir / "config.toml", "x"), ExitCode::checkpoint,
                    "config.toml: is a FIFO and is not replaced");
  EXPECT_EQ(kind_of(dir / "config.toml"), mode_t{S_IFIFO});
  EXPECT_FALSE(fs::exists(dir / "config.toml.partial"));
}

TEST(DurableFile, ALinkUnderThePartialNameIsNotFollowed) {
  TempDir dir;
  dir.write("victim", "before");
  fs::create_symlink("victim", dir / "out.partial");
  write_durably(dir / "out", "x", NamedBy::user);
  EXPECT_EQ(dir.read("victim"), "before");
  EXPECT_EQ(dir.read("out"), "x");
  EXPECT_EQ(kind_of(dir / "out"), mode_t{S_IFREG});
}

}  // namespace
}  // namespace lamina::io
