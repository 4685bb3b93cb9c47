// Messages to people: stderr (and a run's log file), never stdout.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace lamina::log {

enum class Level { debug, info, warning, error };

// Sets the lowest level that is written; info by default. [main thread, before work starts]
void set_level(Level level);

// Also appends every message, with time stamps, to `path`, in a folder that exists, from now on; ""
// stops. DeviceError of class checkpoint if it is a link, not a regular file or cannot be opened; a
// later write error is reported on stderr once. [any thread]
void set_file(const std::string& path);

// Sets a callback before every message to stderr, eg: to clear a progress line; {} removes it. [any
// thread]
void set_before_terminal(std::function<void()> callback);

// Writes one message, made safe to print (printable_lines), with a trailing line feed. [any thread]
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
