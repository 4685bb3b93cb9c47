// Marks the time that a thread spends inside a plugin, so that a process that dies, exits or hangs
// there says whose fault it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "registry/family.h"
#include "registry/process_guard.h"

namespace lamina::registry {

// Which function of which plugin, in words that a signal handler can read.
class PluginFunction {
 public:
  PluginFunction(const PluginIdentity& plugin, std::string_view family, std::string_view function);
  std::string_view text() const { return {text_, text_bytes_}; }

 private:
  static constexpr std::size_t kMaxTextBytes = 512;
  char text_[kMaxTextBytes];
  std::size_t text_bytes_;
};

//   const PluginCall call(family.plugin(), family.name(), "build of block 'layer'");
//   status = block.build(...);
//   if (const std::string change = call.change(); !change.empty()) ...
// Objects nest on one thread like the calls.
class PluginCall {
 public:
  PluginCall(const PluginIdentity& plugin, std::string_view family, std::string_view function);
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;
  // Puts back what the function has changed in the process.
  ~PluginCall();

  // Likewise, and says what it was: "changes the working directory from '/a' to '/' (C-10 of
  // docs/plugin_requirements.md)"; empty where it has changed nothing.
  std::string change() const;

 private:
  const PluginFunction function_;
  const PluginFunction* outer_;
  const ProcessGuard guard_;
  mutable bool compared_ = false;
};

// The same for calls that are many and short, kernels: how long one takes is not watched, and the
// words are made beforehand.
class PluginShortCall {
 public:
  explicit PluginShortCall(const PluginFunction& function);
  PluginShortCall(const PluginShortCall&) = delete;
  PluginShortCall& operator=(const PluginShortCall&) = delete;
  ~PluginShortCall();

 private:
  const PluginFunction* outer_;
};

// "plugin 'org.example.x' 1.0, family 'x' (/path/x.lamina.so): its build of block 'layer'" where
// this thread is inside a plugin, else "". [any thread, also in signal handlers]
std::string_view running_plugin_call() noexcept;

// The same of the call that has ended last on this thread, for an exception that left it; "" where
// there was none. [any thread]
std::string last_plugin_call();

// Says which plugin ends the process, and ends it with exit code 8, where this thread is inside
// one; else returns. `function`: "_exit". [any thread]
void refuse_exit(std::string_view function) noexcept;

// From now on exit() inside a plugin ends the process with exit code 8 and an error on stderr, and
// five seconds in one call bring a line that says so. Uses SIGALRM. [main thread, once]
void watch_plugin_calls();

}  // namespace lamina::registry
