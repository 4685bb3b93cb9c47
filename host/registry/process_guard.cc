#include "registry/process_guard.h"

#include <dirent.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <climits>
#include <clocale>
#include <cstring>

#include "core/printable.h"

extern char** environ;

namespace lamina::registry {
namespace {

#if defined(__x86_64__)
// The lower bits of MXCSR are status flags, which change with every inexact result.
constexpr std::uint32_t kMxcsrControl = 0xffc0;

std::uint64_t float_control() noexcept {
  std::uint32_t mxcsr;
  std::uint16_t x87;
  asm volatile("stmxcsr %0" : "=m"(mxcsr));
  asm volatile("fnstcw %0" : "=m"(x87));
  return std::uint64_t{x87} << 32 | (mxcsr & kMxcsrControl);
}
void set_float_control(std::uint64_t control) noexcept {
  const auto mxcsr = static_cast<std::uint32_t>(control);
  const auto x87 = static_cast<std::uint16_t>(control >> 32);
  asm volatile("ldmxcsr %0" : : "m"(mxcsr));
  asm volatile("fldcw %0" : : "m"(x87));
}
#elif defined(__aarch64__)
std::uint64_t float_control() noexcept {
  std::uint64_t out;
  asm volatile("mrs %0, fpcr" : "=r"(out));
  return out;
}
void set_float_control(std::uint64_t control) noexcept {
  asm volatile("msr fpcr, %0" : : "r"(control));
}
#else
std::uint64_t float_control() noexcept { return static_cast<std::uint64_t>(std::fegetround()); }
void set_float_control(std::uint64_t control) noexcept {
  std::fesetround(static_cast<int>(control));
}
#endif

std::string current_folder() {
  std::array<char, PATH_MAX> path;
  return getcwd(path.data(), path.size()) ? path.data() : "";
}

std::string current_locale() {
  const char* name = std::setlocale(LC_ALL, nullptr);
  return name ? name : "";
}

std::vector<char*> current_environment() {
  std::vector<char*> out;
  for (char** at = environ; at && *at; ++at) out.push_back(*at);
  return out;
}

// Returns the name in "NAME=value", made safe to print.
std::string variable_of(const char* setting) {
  const std::string_view text = setting;
  constexpr std::size_t kMostText = 64;
  return printable(std::string(text.substr(0, text.find('='))), kMostText);
}

// The kernel's SA_RESTORER, which the C library adds to every action.
constexpr int kRestorer = 0x04000000;

// Signals 1 to 64 are the first bits of a set.
std::uint64_t bits_of(const sigset_t& set) {
  std::uint64_t out;
  std::memcpy(&out, &set, sizeof out);
  return out;
}
sigset_t set_of(std::uint64_t bits) {
  sigset_t out;
  sigemptyset(&out);
  std::memcpy(&out, &bits, sizeof bits);
  return out;
}

std::uint64_t blocked_signals() {
  sigset_t out;
  pthread_sigmask(SIG_BLOCK, nullptr, &out);
  return bits_of(out);
}

int entries_of(const char* folder) {
  int count = 0;
  if (DIR* all = opendir(folder)) {
    while (readdir(all)) ++count;
    closedir(all);
  }
  return count;
}

}  // namespace

FloatControl::FloatControl() noexcept : control_(float_control()) {}

bool FloatControl::restore() const noexcept {
  if (float_control() == control_) return false;
  set_float_control(control_);
  return true;
}

ProcessCounts::ProcessCounts()
    : threads(entries_of("/proc/self/task")), descriptors(entries_of("/proc/self/fd")) {}

ProcessGuard::Handler ProcessGuard::handler_of(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0) return {};
  return {reinterpret_cast<void*>(action.sa_handler), bits_of(action.sa_mask),
          action.sa_flags & ~kRestorer};
}

ProcessGuard::ProcessGuard()
    : folder_(current_folder()),
      locale_(current_locale()),
      thread_locale_(uselocale(static_cast<locale_t>(nullptr))),
      environment_(current_environment()),
      blocked_(blocked_signals()) {
  for (int signal = 1; signal < kSignals; ++signal)
    handlers_[static_cast<std::size_t>(signal)] = handler_of(signal);
}

std::string ProcessGuard::restore() const {
  std::vector<std::string> changes;
  if (float_control_.restore())
    changes.emplace_back("changes how the processor rounds floating-point numbers");
  restore_folder(changes);
  restore_locale(changes);
  restore_environment(changes);
  restore_signals(changes);
  return fmt::format("{}", fmt::join(changes, ", "));
}

void ProcessGuard::restore_folder(std::vector<std::string>& changes) const {
  const std::string now = current_folder();
  if (now == folder_) return;
  const bool back = !folder_.empty() && chdir(folder_.c_str()) == 0;
  changes.push_back(fmt::format("changes the working directory from '{}' to '{}'{}",
                                printable(folder_), printable(now),
                                back ? "" : " (and the former cannot be entered any more)"));
}

void ProcessGuard::restore_locale(std::vector<std::string>& changes) const {
  const std::string now = current_locale();
  if (uselocale(static_cast<locale_t>(nullptr)) != thread_locale_) {
    uselocale(thread_locale_);
    changes.emplace_back("changes the locale of the thread");
  }
  if (std::locale() != cpp_locale_) {
    std::locale::global(cpp_locale_);
    if (now == locale_) changes.emplace_back("changes the locale of C++");
  }
  if (now == locale_) return;
  std::setlocale(LC_ALL, locale_.c_str());
  changes.push_back(fmt::format("changes the locale from '{}' to '{}'", locale_, now));
}

// The C library never frees a setting, so previous pointers stay valid.
void ProcessGuard::restore_environment(std::vector<std::string>& changes) const {
  const std::vector<char*> now = current_environment();
  if (now == environment_) return;
  const auto missing = [](const std::vector<char*>& of, const std::vector<char*>& in) {
    return std::ranges::find_if(
        of, [&](char* setting) { return std::ranges::find(in, setting) == in.end(); });
  };
  std::string name;
  if (const auto added = missing(now, environment_); added != now.end())
    name = variable_of(*added);
  else if (const auto gone = missing(environment_, now); gone != environment_.end())
    name = variable_of(*gone);
  changes.push_back(name.empty() ? "changes the order of the environment variables"
                                 : fmt::format("changes the environment variable '{}'", name));
  clearenv();
  for (char* setting : environment_) putenv(setting);
}

void ProcessGuard::restore_signals(std::vector<std::string>& changes) const {
  if (blocked_signals() != blocked_) {
    const sigset_t before = set_of(blocked_);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    changes.emplace_back("changes which signals are blocked");
  }
  for (int signal = 1; signal < kSignals; ++signal) {
    const Handler& before = handlers_[static_cast<std::size_t>(signal)];
    if (handler_of(signal) == before) continue;
    struct sigaction action {};
    action.sa_handler = reinterpret_cast<void (*)(int)>(before.function);
    action.sa_flags = before.flags;
    action.sa_mask = set_of(before.blocked);
    sigaction(signal, &action, nullptr);
    const char* abbreviation = sigabbrev_np(signal);
    changes.push_back(
        fmt::format("changes the handling of the signal {}",
                    abbreviation ? fmt::format("SIG{}", abbreviation) : fmt::format("{}", signal)));
  }
}

}  // namespace lamina::registry
