// Writing to a slow reader, and to a reader that has closed the pipe.
#include "core/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

namespace lamina {
namespace {

TEST(WriteAll, Example) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(write_all(ends[1], "hello"), 0);
  char text[8] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text), 5);
  EXPECT_STREQ(text, "hello");
  close(ends[0]);
  close(ends[1]);
}

TEST(WriteAll, WaitsForAFullNonBlockingPipe) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  fcntl(ends[0], F_SETFL, 0);
  const std::string sent(1 << 20, 'x');
  std::string received;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the pipe is full
    char piece[4096];
    for (ssize_t count; (count = read(ends[0], piece, sizeof piece)) > 0;)
      received.append(piece, static_cast<std::size_t>(count));
  });
  EXPECT_EQ(write_all(ends[1], sent), 0);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(received, sent);
}

TEST(WriteAll, SaysThatTheReaderIsGone) {
  signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write_all(ends[1], "x"), EPIPE);
  close(ends[1]);
}

}  // namespace
}  // namespace lamina
