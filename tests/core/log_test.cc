// Messages when they cannot be written.
#include "core/log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "support/temp_dir.h"

namespace lamina {
namespace {

// Makes the file of the log full, in a process that ends. The file of stderr, if it is one, is not.
void fill_log(testing::TempDir& folder) {
  log::set_file(folder.write("log.txt", std::string(4096, '.')));
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
}

[[noreturn]] void write_twice_and_exit() {
  try {
    log::info("one");
    log::info("two");
  } catch (const std::exception&) {
    _exit(1);
  }
  _exit(0);
}

TEST(Log, AFullDiskIsReportedOnce) {
  testing::TempDir folder;
  EXPECT_EXIT(
      {
        fill_log(folder);
        write_twice_and_exit();
      },
      ::testing::ExitedWithCode(0),
      "^one\nwarning: the log file has gaps: .*; free space on its disk\ntwo\n$");
}

TEST(Log, AFullDiskWithoutATerminalDoesNotEndTheWork) {
  testing::TempDir folder;
  EXPECT_EXIT(
      {
        fill_log(folder);
        ::close(STDERR_FILENO);
        write_twice_and_exit();
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lamina
