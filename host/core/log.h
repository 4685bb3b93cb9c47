// Messages to people: stderr (and a run's log file), never stdout.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace lamina::log {

enum class Level { debug, info, warning, error };

// The lowest level that is written; info by default. [main thread, before work starts]
void set_level(Level level);

// Also appends every message, with time stamps, to `path` from now on; "" stops. DeviceError of
// class checkpoint where that is a link, is no regular file or cannot be opened; a write that fails
// later is said on stderr, once. [any thread]
void set_file(const std::string& path);

// Called before every message that goes to stderr, eg: to clear a progress line; {} removes it.
// [any thread]
void set_before_terminal(std::function<void()> callback);

// Writes one message, fit to print (printable_lines); a trailing line feed is added. [any thread]
void write(Level level, std::string_view message);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
// A warning must name an action; otherwise it is info.
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lamina::log
