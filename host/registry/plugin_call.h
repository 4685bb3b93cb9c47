// Marks the time that a thread spends inside a plugin, so that a process that dies, exits or hangs
// there reports the plugin.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "registry/family.h"
#include "registry/process_guard.h"

namespace lamina::registry {

// The function and plugin of a call, as text that a signal handler can read.
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
  // Restores the state of the process that the function has changed.
  ~PluginCall();

  // Restores it and returns the change: "changes the working directory from '/a' to '/' (C-10 of
  // docs/plugin_requirements.md)"; empty if nothing has changed.
  std::string change() const;

 private:
  const PluginFunction function_;
  const PluginFunction* outer_;
  const ProcessGuard guard_;
  mutable bool compared_ = false;
};

// Marks a short and frequent call, such as a kernel's: its duration is not watched, and
// its text is prepared.
class PluginShortCall {
 public:
  explicit PluginShortCall(const PluginFunction& function);
  PluginShortCall(const PluginShortCall&) = delete;
  PluginShortCall& operator=(const PluginShortCall&) = delete;
  ~PluginShortCall();

 private:
  const PluginFunction* outer_;
};

// Returns "plugin 'org.example.x' 1.0, family 'x' (/path/x.lamina.so): its build of block 'layer'"
// if this thread is inside a plugin, else "". [any thread, also in signal handlers]
std::string_view running_plugin_call() noexcept;

// Returns the same text for the most recently finished call on this thread, for an exception that
// left it; "" if there was none. [any thread]
std::string last_plugin_call();

// If this thread is inside a plugin, prints which plugin ends the process and ends it with exit
// code 8; else returns. `function`: "_exit". [any thread]
void refuse_exit(std::string_view function) noexcept;

// From now on exit() inside a plugin ends the process with exit code 8 and an error on stderr, and
// a call that takes five seconds prints a line. Uses SIGALRM. [main thread, once]
void watch_plugin_calls();

}  // namespace lamina::registry
