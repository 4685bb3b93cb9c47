#include "torture/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "torture/fault_state.h"

extern char** environ;

namespace lamina::torture {
namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

std::string first_bytes(const std::string& path) {
  std::string text(kMaxOutput, 0);
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

fault_state* map_counters(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(fault_state)) != 0)
    throw std::system_error(errno, std::generic_category(), path);
  void* at = ::mmap(nullptr, sizeof(fault_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
  return static_cast<fault_state*>(at);
}

// In the child, before exec: async-signal-safe calls only. The soft limit of CPU time sends
// SIGXCPU; the hard limit sends SIGKILL, which would look like a kill by the driver.
void limit(int what, std::uint64_t value) {
  if (value == 0) return;
  const rlimit both{value, what == RLIMIT_CPU ? value + 5 : value};
  ::setrlimit(static_cast<__rlimit_resource>(what), &both);
}

}  // namespace

std::string Ended::text() const {
  if (timed_out) return fmt::format("no end within {:.0f} s", seconds);
  if (signal != 0) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", code);
}

Child::Child(Launch launch) : launch_(std::move(launch)) {
  static std::atomic<unsigned> next_number{0};
  stem_ = fmt::format("{}/process-{}", launch_.folder, next_number++);
  std::vector<std::string> environment;
  for (char** variable = environ; *variable; ++variable) environment.emplace_back(*variable);
  // Last: programs take the first of two variables with the same name, so this one must be the only
  // one.
  auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(environment, [&](const std::string& v) { return v.starts_with(name + "="); });
    environment.push_back(name + "=" + value);
  };
  for (const std::string& variable : launch_.environment) {
    const auto equals = variable.find('=');
    set(variable.substr(0, equals), variable.substr(equals + 1));
  }
  if (const Fault& fault = launch_.fault; !fault.calls.empty()) {
    counters_ = map_counters(stem_ + ".faults");
    set("LD_PRELOAD", TORTURE_PRELOAD);
    set("TORTURE_CALLS", fault.calls);
    if (!fault.path.empty()) set("TORTURE_PATH", fault.path);
    set("TORTURE_FIRST", std::to_string(fault.first));
    set("TORTURE_TIMES", std::to_string(fault.times));
    set("TORTURE_ACTION", fault.action);
    set("TORTURE_STATE", stem_ + ".faults");
  }
  std::vector<char*> arguments = pointers(launch_.words), variables = pointers(environment);
  const std::string out = stem_ + ".out", err = stem_ + ".err";
  sigset_t blocked, all, before;
  sigemptyset(&blocked);
  sigfillset(&all);
  for (int signal : launch_.blocked_signals) sigaddset(&blocked, signal);
  start_ = std::chrono::steady_clock::now();
  // A signal sent to the child must wait until the child has its own mask.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ > 0) return;
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
  for (int fd = 3; fd < 64; ++fd) ::close(fd);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  limit(RLIMIT_CPU, launch_.cpu_seconds);
  limit(RLIMIT_AS, launch_.memory_bytes);
  limit(RLIMIT_FSIZE, launch_.max_file_bytes);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (::chdir(launch_.folder.c_str()) != 0) ::_exit(126);
  ::execve(arguments[0], arguments.data(), variables.data());
  ::_exit(127);
}

Child::~Child() {
  if (!ended_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
  if (counters_) ::munmap(counters_, sizeof(fault_state));
}

void Child::send(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

bool Child::ends_within(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (double pause = 0.0002; !ended_; pause = std::min(pause * 1.5, 0.01)) {
    if (::waitpid(pid_, &status_, WNOHANG) == pid_) {
      ended_ = true;
      seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    } else if (std::chrono::steady_clock::now() >= until) {
      break;
    } else {
      rest(pause);
    }
  }
  return ended_;
}

Ended Child::wait() {
  Ended ended;
  if (!ends_within(launch_.seconds)) {
    send(SIGKILL);
    ends_within(60);
    ended.timed_out = true;
  }
  ended.seconds = seconds_;
  if (WIFSIGNALED(status_)) ended.signal = WTERMSIG(status_);
  if (ended.signal == SIGXCPU) ended.timed_out = true;
  if (WIFEXITED(status_)) ended.code = WEXITSTATUS(status_);
  ended.out = first_bytes(stem_ + ".out");
  ended.err = first_bytes(stem_ + ".err");
  if (counters_) {
    ended.num_calls = counters_->num_calls;
    ended.num_struck = counters_->num_struck;
    ended.struck_call = counters_->call;
    ended.struck_path = counters_->path;
  }
  return ended;
}

std::uint64_t Child::num_struck() const { return counters_ ? counters_->num_struck.load() : 0; }

std::vector<int> Child::cpus_of_threads() const {
  std::vector<int> out;
  std::error_code ec;
  std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", pid_), ec), end;
  for (; !ec && task != end; task.increment(ec)) {  // it may end meanwhile
    cpu_set_t set;
    if (::sched_getaffinity(std::stoi(task->path().filename()), sizeof set, &set) == 0)
      out.push_back(CPU_COUNT(&set));
  }
  return out;
}

bool Child::handles(int signal) const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigIgn:") || line.starts_with("SigCgt:"))
      if (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) return true;
  return false;
}

void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace lamina::torture
