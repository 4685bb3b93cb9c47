// Marks the time that a thread spends inside a plugin, so that a process that dies, exits or hangs
// there says whose fault it is.
#pragma once

#include <cstddef>
#include <string_view>

#include "registry/family.h"

namespace lamina::registry {

//   const PluginCall call(family.plugin(), family.name(), "build of block 'layer'");
//   status = block.build(...);
// Objects nest on one thread like the calls.
class PluginCall {
 public:
  PluginCall(const PluginIdentity& plugin, std::string_view family, std::string_view function);
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;
  ~PluginCall();

  std::string_view text() const { return {text_, text_bytes_}; }

 private:
  static constexpr std::size_t kMaxTextBytes = 512;
  char text_[kMaxTextBytes];  // readable from a signal handler
  std::size_t text_bytes_;
  const PluginCall* outer_;
};

// "plugin 'org.example.x' 1.0, family 'x' (/path/x.lamina.so): its build of block 'layer'" where
// this thread is inside a plugin, else "". [any thread, also in signal handlers]
std::string_view running_plugin_call() noexcept;

// From now on exit() inside a plugin ends the process with exit code 8 and an error on stderr, and
// five seconds in one call bring a line that says so. Uses SIGALRM. [main thread, once]
void watch_plugin_calls();

}  // namespace lamina::registry
