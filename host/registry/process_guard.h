// Checks the process state that a plugin must not change, around its calls: C-10 of
// docs/plugin_requirements.md.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <locale>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::registry {

// Rounding, subnormal numbers and traps of the calling thread. Takes nanoseconds.
class FloatControl {
 public:
  FloatControl() noexcept;
  // Restores the control; returns true if it had changed.
  bool restore() const noexcept;

 private:
  std::uint64_t control_;
};

// The working directory, locale, environment and signals of the process, and the signal mask,
// locale and floating-point control of the calling thread. Takes microseconds.
class ProcessGuard {
 public:
  ProcessGuard();
  // Restores the changed state and describes it: "changes the working directory from '/a' to '/'".
  // Returns "" if nothing has changed. [the thread that made it]
  std::string restore() const;

 private:
  struct Handler {
    void* function = nullptr;
    std::uint64_t blocked = 0;  // one bit per signal
    int flags = 0;
    friend bool operator==(const Handler&, const Handler&) = default;
  };
  static Handler handler_of(int signal);
  void restore_folder(std::vector<std::string>& changes) const;
  void restore_locale(std::vector<std::string>& changes) const;
  void restore_environment(std::vector<std::string>& changes) const;
  void restore_signals(std::vector<std::string>& changes) const;

  // Signals with names; each costs a system call.
  static constexpr int kSignals = 32;
  std::string folder_;
  std::string locale_;
  std::locale cpp_locale_;
  locale_t thread_locale_;
  std::vector<char*> environment_;
  std::array<Handler, kSignals> handlers_;
  std::uint64_t blocked_;
  FloatControl float_control_;
};

// Threads and open files of the process, if the system provides them.
struct ProcessCounts {
  int threads, descriptors;
  ProcessCounts();
};

// Advice for the plugin's author.
inline constexpr std::string_view kLeaveTheProcess =
    "these belong to the program, which has restored them; the plugin must not change them";

}  // namespace lamina::registry
