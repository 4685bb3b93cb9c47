// Paths that are not files are refused immediately.
#include "core/open_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "core/read_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina {
namespace {

using testing::TempDir;

TEST(InputFile, Example) {
  TempDir dir;
  const InputFile file(dir.write("a.txt", "abc"), ExitCode::data);
  EXPECT_EQ(file.num_bytes(), 3u);
  char first = 0;
  EXPECT_EQ(::read(file.descriptor(), &first, 1), 1);
  EXPECT_EQ(first, 'a');
}

TEST(ReadBeginning, Example) {
  TempDir dir;
  const std::string path = dir.write("a.txt", "abc");
  EXPECT_EQ(read_beginning(path, ExitCode::data, 2), "ab");
  EXPECT_EQ(read_beginning(path, ExitCode::data, 4), "abc");
  EXPECT_ERROR_SAYS(read_beginning(dir / "none", ExitCode::data, 2), ExitCode::data,
                    "none: cannot be read: no such file or directory");
}

TEST(InputFile, SaysWhyAFileCannotBeRead) {
  TempDir dir;
  EXPECT_USER_ERROR(InputFile(dir / "none", ExitCode::data), ExitCode::data,
                    dir / "none" +
                        ": cannot be read: no such file or directory\n"
                        "  check the path and its permissions");
}

TEST(InputFile, ADashIsNotStdin) {
  EXPECT_USER_ERROR(InputFile("-", ExitCode::data), ExitCode::data,
                    "-: stdin is not read here; expected a file\n"
                    "  write it to a file first, and give the name of the file");
}

TEST(InputFile, APathDoesNotEndAtANulByte) {
  TempDir dir;
  const std::string path = dir.write("a.txt", "abc");
  EXPECT_ERROR_SAYS(InputFile(path + std::string("\0b", 2), ExitCode::data), ExitCode::data,
                    "is not a path; file names cannot contain a NUL byte");
}

TEST(InputFile, RefusesPathsThatAreNotFilesImmediately) {
  TempDir dir;
  const std::string fifo = dir / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_USER_ERROR(read_file(fifo, ExitCode::checkpoint), ExitCode::checkpoint,
                    fifo +
                        ": is a FIFO; expected a file\n"
                        "  write its output to a file first");
  EXPECT_USER_ERROR(read_file(dir.path(), ExitCode::data), ExitCode::data,
                    dir.path() + ": is a directory; expected a file\n  give a file inside it");
  EXPECT_ERROR_SAYS(read_file("/dev/zero", ExitCode::data), ExitCode::data,
                    "/dev/zero: is a device; expected a file");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = dir / "socket";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_ERROR_SAYS(read_file(path, ExitCode::data), ExitCode::data,
                    "socket: is a socket; expected a file");
  ::close(socket);
}

}  // namespace
}  // namespace lamina
