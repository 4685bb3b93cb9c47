#include "conformance/process/descendants.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <string_view>
#include <vector>

namespace lamina::conformance {
namespace {

namespace fs = std::filesystem;

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::size_t kMostChecks = 16;

// Process ids of the running checks, 0 for free slots. Read by a signal handler.
std::array<std::atomic<pid_t>, kMostChecks> running_checks;
std::mutex starting_check;  // held while a check starts, and while stray processes are searched
std::array<struct sigaction, kEndingSignals.size()> actions_before;

extern "C" void on_end(int signal) {
  for (const auto& check : running_checks)
    if (const pid_t group = check) kill(-group, SIGKILL);
  raise(signal);  // blocked until this returns; SA_RESETHAND has restored the default action
}

bool is_check(pid_t process) {
  return std::ranges::any_of(running_checks, [&](const auto& each) { return each == process; });
}

// The parent of a process; 0 if there is no such process.
pid_t parent_of(pid_t process) {
  std::istringstream fields(state_of_process(process));
  char state = 0;
  pid_t parent = 0;
  fields >> state >> parent;
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (bad != std::errc() || end != name.data() + name.size()) continue;
    if (parent_of(process) == getpid()) out.push_back(process);
  }
  return out;
}

// Kills children that are not checks; true if there were some. Their own children are next.
bool end_strays() {
  bool any = false;
  for (const pid_t process : children()) {
    if (is_check(process)) continue;
    kill(process, SIGKILL);
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
    any = true;
  }
  return any;
}

void die_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace

EndsChecksWithKit::EndsChecksWithKit() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    sigaction(kEndingSignals[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler != SIG_DFL) continue;  // eg ignored by the parent of the kit
    struct sigaction action {};
    action.sa_handler = on_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(kEndingSignals[i], &action, nullptr);
  }
}

EndsChecksWithKit::~EndsChecksWithKit() {
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i)
    sigaction(kEndingSignals[i], &actions_before[i], nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

pid_t fork_check() {
  const std::lock_guard lock(starting_check);
  const pid_t kit = getpid();
  const pid_t child = fork();
  if (child == 0) {
    die_with_parent();
    if (getppid() != kit) _exit(127);  // the kit has ended in between
    setpgid(0, 0);
    return 0;
  }
  if (child > 0)
    for (auto& place : running_checks) {
      pid_t free = 0;
      if (place.compare_exchange_strong(free, child)) break;
    }
  return child;
}

void end_check(pid_t check) {
  kill(-check, SIGKILL);
  const std::lock_guard lock(starting_check);
  for (auto& place : running_checks) {
    pid_t known = check;
    place.compare_exchange_strong(known, 0);
  }
  constexpr int kMostGenerations = 100;  // a plugin may fork faster than it is ended
  for (int i = 0; i < kMostGenerations && end_strays(); ++i) {
  }
}

std::string state_of_process(pid_t process) {
  // Not a stream, which throws if the process ends meanwhile.
  std::FILE* const file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "re");
  if (!file) return "";
  std::array<char, 1024> bytes;
  const std::string_view text(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  // The name, in parentheses, may contain any characters.
  const std::size_t end = text.rfind(')');
  return end == text.npos || end + 2 > text.size() ? "" : std::string(text.substr(end + 2));
}

void end_forks_with_this_process() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pthread_atfork(nullptr, nullptr, die_with_parent);
}

bool has_child_processes() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace lamina::conformance
