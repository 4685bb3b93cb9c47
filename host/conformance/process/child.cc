#include "conformance/process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "conformance/process/descendants.h"
#include "core/error.h"

extern char** environ;

namespace lamina::conformance {
namespace {

constexpr std::size_t kMostText = 1 << 20;
constexpr rlim_t kMostMemory = rlim_t{4} << 30, kSmallStack = rlim_t{256} << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // shadow memory is far above any limit
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

// Runs in the child; only system calls until exec.
[[noreturn]] void become(const char* program, char* const* words, char* const* variables,
                         const ChildOptions& options, int out, int err) {
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(options.hostile ? nothing : err, STDERR_FILENO);
  limit(RLIMIT_CORE, 0);
  // The kernel warns at the first number and kills at the second.
  const auto processor = static_cast<rlim_t>(options.processor_seconds);
  const rlimit time{processor, processor + 5};
  setrlimit(RLIMIT_CPU, &time);
  if (options.limit_memory && !kSanitized) limit(RLIMIT_AS, kMostMemory);
  if (options.hostile) limit(RLIMIT_STACK, kSmallStack);
  if ((options.hostile || options.elsewhere) && chdir("/") != 0) _exit(126);
  execve(program, words, variables);
  _exit(127);
}

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw DeviceError(ExitCode::unclassified,
                        {"plugin check", "the system cannot create a pipe", {}});
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

// Reads the available bytes; false at the end.
bool take(int descriptor, std::string& to) {
  std::array<char, 4096> bytes;
  const ssize_t count = read(descriptor, bytes.data(), bytes.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count <= 0) return false;
  to.append(bytes.data(), std::min(static_cast<std::size_t>(count), kMostText - to.size()));
  return true;
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Processor time of all its threads; 0 if the system does not report it.
double processor_seconds(pid_t process) {
  clockid_t clock;
  timespec used{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// True if it waits for a processor that others use, or for a disk, or a debugger has stopped it.
bool is_held_up(pid_t process) {
  const std::string state = state_of_process(process);
  return !state.empty() && std::string_view("RDTt").find(state[0]) != std::string_view::npos;
}

// Measures the time that a process has run.
class Limits {
 public:
  Limits(pid_t process, const ChildOptions& options) : process_(process), options_(options) {}

  Limit met() {
    if (seconds_since(start_) > options_.seconds) return Limit::clock;
    if (seconds_since(looked_) < kLookSeconds) return Limit::none;
    looked_ = Clock::now();
    const double used = processor_seconds(process_);
    if (used > used_ + kIdleProcessorSeconds || is_held_up(process_)) {
      used_ = used;
      active_ = looked_;
    }
    return seconds_since(active_) > options_.idle_seconds ? Limit::idle : Limit::none;
  }

 private:
  static constexpr double kLookSeconds = 0.2;
  // A waiting process wakes up now and then.
  static constexpr double kIdleProcessorSeconds = 0.02;
  pid_t process_;
  const ChildOptions& options_;
  double used_ = 0;
  Clock::time_point start_ = Clock::now(), looked_ = start_, active_ = start_;
};

// Also true if it cannot be waited for.
bool has_ended(pid_t process, int& status) {
  const pid_t found = waitpid(process, &status, WNOHANG);
  return found == process || (found < 0 && errno != EINTR);
}

// Collects the output of a process as it arrives.
class Output {
 public:
  Output(const Pipe& out, const Pipe& err, ChildEnd& to)
      : watched_{{{out.end(0), POLLIN, 0}, {err.end(0), POLLIN, 0}}}, texts_{&to.out, &to.err} {
    for (const pollfd& each : watched_) fcntl(each.fd, F_SETFL, O_NONBLOCK);
  }

  // Reads for a moment; closed ends do not mean that the process has ended.
  void read(int milliseconds) {
    const bool open = watched_[0].fd >= 0 || watched_[1].fd >= 0;
    if (poll(watched_.data(), watched_.size(), open ? milliseconds : 1) <= 0) return;
    for (std::size_t i = 0; i < watched_.size(); ++i)
      if (watched_[i].fd >= 0 && watched_[i].revents != 0 && !take(watched_[i].fd, *texts_[i]))
        watched_[i].fd = -1;
  }
  // Reads all output written so far.
  void read_rest() {
    for (std::size_t before = ~std::size_t{0}; before != num_bytes();) {
      before = num_bytes();
      read(0);
    }
  }

 private:
  std::size_t num_bytes() const { return texts_[0]->size() + texts_[1]->size(); }

  std::array<pollfd, 2> watched_;
  std::array<std::string*, 2> texts_;
};

// Ends a process that has reached a limit. A process held by the kernel cannot be waited for.
void end_process_of(pid_t child, int& status) {
  constexpr double kPatience = 5;
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  for (const auto start = Clock::now(); seconds_since(start) < kPatience;) {
    if (has_ended(child, status)) return;
    usleep(1000);
  }
}

}  // namespace

std::string ChildEnd::how() const {
  if (limit != Limit::none) return "took too long";
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  std::string name = strsignal(WTERMSIG(status));
  if (!name.empty() && name[0] >= 'A' && name[0] <= 'Z')
    name[0] = static_cast<char>(name[0] - 'A' + 'a');
  return "died: " + name;
}

ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& words,
                   const ChildOptions& options) {
  std::vector<std::string> all = words;
  all.insert(all.begin(), program.string());
  const std::vector<std::string> variables = surroundings(options);
  const std::vector<char*> argv = pointers(all), envp = pointers(variables);
  Pipe out, err;
  const pid_t child = fork_check();
  if (child < 0)
    throw DeviceError(ExitCode::unclassified,
                      {"plugin check", "the system cannot create a process", {}});
  if (child == 0)
    become(program.c_str(), argv.data(), envp.data(), options, out.end(1), err.end(1));
  out.close_end(1);
  err.close_end(1);
  ChildEnd end;
  Limits limits(child, options);
  Output output(out, err, end);
  constexpr int kMoment = 20;
  while (!has_ended(child, end.status)) {
    output.read(kMoment);
    end.limit = limits.met();
    if (end.limit == Limit::none) continue;
    end_process_of(child, end.status);
    break;
  }
  output.read_rest();
  end_check(child);
  if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGXCPU) end.limit = Limit::processor;
  return end;
}

}  // namespace lamina::conformance
