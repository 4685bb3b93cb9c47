#include "conformance/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "core/error.h"

extern char** environ;

namespace lamina::conformance {
namespace {

constexpr std::size_t kMostText = 1 << 20;
constexpr rlim_t kMostMemory = rlim_t{4} << 30, kSmallStack = rlim_t{256} << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // whose shadow memory is far more than any limit
#else
constexpr bool kSanitized = false;
#endif

void limit(int what, rlim_t most) {
  const rlimit both{most, most};
  setrlimit(what, &both);
}

// Variables of the child: all of ours, or few.
std::vector<std::string> surroundings(const ChildOptions& options) {
  std::vector<std::string> out;
  for (char** at = environ; *at && !options.hostile; ++at) out.emplace_back(*at);
  if (options.elsewhere) {
    out.emplace_back("TZ=Pacific/Kiritimati");
    out.emplace_back("A_VARIABLE_THAT_MOVES_THE_STACK=" + std::string(4096, 'x'));
  }
  if (options.hostile) {
    out.emplace_back("LC_ALL=de_DE.UTF-8");
    out.emplace_back("PATH=/nowhere");
  }
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// In the child; nothing but system calls until exec.
[[noreturn]] void become(const char* program, char* const* words, char* const* variables,
                         const ChildOptions& options, int out, int err) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(options.hostile ? nothing : err, STDERR_FILENO);
  limit(RLIMIT_CORE, 0);
  // The kernel says so at the first number and kills at the second.
  const auto processor = static_cast<rlim_t>(options.processor_seconds);
  const rlimit time{processor, processor + 5};
  setrlimit(RLIMIT_CPU, &time);
  if (!kSanitized) limit(RLIMIT_AS, kMostMemory);
  if (options.hostile) limit(RLIMIT_STACK, kSmallStack);
  if ((options.hostile || options.elsewhere) && chdir("/") != 0) _exit(126);
  execve(program, words, variables);
  _exit(127);
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw DeviceError(ExitCode::unclassified, {"plugin check", "the system gives no pipe", {}});
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int end(int which) const { return ends_[static_cast<std::size_t>(which)]; }
  void close_end(int which) {
    int& end = ends_[static_cast<std::size_t>(which)];
    if (end >= 0) close(end);
    end = -1;
  }

 private:
  std::array<int, 2> ends_{};
};

// Reads what there is; false at the end.
bool take(int descriptor, std::string& to) {
  std::array<char, 4096> bytes;
  const ssize_t count = read(descriptor, bytes.data(), bytes.size());
  if (count <= 0) return false;
  to.append(bytes.data(), std::min(static_cast<std::size_t>(count), kMostText - to.size()));
  return true;
}

}  // namespace

std::string ChildEnd::how() const {
  if (timed_out || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)) return "took too long";
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  std::string name = strsignal(WTERMSIG(status));
  if (!name.empty() && name[0] >= 'A' && name[0] <= 'Z')
    name[0] = static_cast<char>(name[0] - 'A' + 'a');
  return "died: " + name;
}

ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& words,
                   const ChildOptions& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::string> all = words;
  all.insert(all.begin(), program.string());
  const std::vector<std::string> variables = surroundings(options);
  const std::vector<char*> argv = pointers(all), envp = pointers(variables);
  Pipe out, err;
  const pid_t child = fork();
  if (child < 0)
    throw DeviceError(ExitCode::unclassified, {"plugin check", "the system gives no process", {}});
  if (child == 0)
    become(program.c_str(), argv.data(), envp.data(), options, out.end(1), err.end(1));
  out.close_end(1);
  err.close_end(1);
  ChildEnd end;
  const auto deadline =
      Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(options.seconds * 1000));
  std::array<pollfd, 2> watched = {{{out.end(0), POLLIN, 0}, {err.end(0), POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&end.out, &end.err};
  int open = 2;
  while (open > 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    if (poll(watched.data(), watched.size(), static_cast<int>(left)) < 0) continue;
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (watched[i].fd >= 0 && watched[i].revents != 0 && !take(watched[i].fd, *texts[i])) {
        watched[i].fd = -1;
        --open;
      }
  }
  if (open > 0) {
    end.timed_out = true;
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
  }
  while (waitpid(child, &end.status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGXCPU) end.timed_out = true;
  return end;
}

}  // namespace lamina::conformance
