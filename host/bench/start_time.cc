#include "bench/start_time.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/error.h"
#include "core/stopwatch.h"
#include "core/system_error.h"

namespace lamina::bench {
namespace {

// True for at least one byte, false at the end.
bool take(int descriptor) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    return count > 0;
  }
}

// The child's end of the pipe becomes its stdout. Returns the process id.
pid_t spawn(const std::vector<std::string>& words, const std::array<int, 2>& pipe) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw DeviceError(ExitCode::unclassified,
                      {words[0], fmt::format("cannot be run: {}", system_error_text(error)), {}});
  return child;
}

}  // namespace

StartTime time_start(const std::vector<std::string>& words) {
  std::array<int, 2> pipe;
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    throw DeviceError(ExitCode::unclassified, {words[0], "the system cannot create a pipe", {}});
  const Stopwatch watch;
  StartTime out;
  pid_t child = 0;
  try {
    child = spawn(words, pipe);
  } catch (...) {
    ::close(pipe[0]);
    ::close(pipe[1]);
    throw;
  }
  ::close(pipe[1]);
  bool more = take(pipe[0]);
  out.first_output = watch.seconds();
  while (more) more = take(pipe[0]);
  ::close(pipe[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  out.whole = watch.seconds();
  if (!WIFEXITED(status))
    throw DeviceError(ExitCode::unclassified,
                      {words[0], fmt::format("was ended by signal {}", WTERMSIG(status)), {}});
  if (const int code = WEXITSTATUS(status); code != 0)
    throw UserError(
        static_cast<ExitCode>(code),
        {words[0], fmt::format("ended with code {}", code), {"the reason is printed above"}});
  return out;
}

}  // namespace lamina::bench
