#include "registry/plugin_call.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "core/end_process.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/write_all.h"

namespace lamina::registry {
namespace {

constexpr int kPatienceSeconds = 5;

thread_local const PluginFunction* running = nullptr;
thread_local std::optional<PluginFunction> ended;  // the most recently finished call
std::atomic<const PluginFunction*> latest{
    nullptr};  // for the alarm, which may arrive on any thread
std::atomic<bool> watching{false};

void say(std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) (void)write_all(STDERR_FILENO, part);
}

void on_exit() { refuse_exit("exit"); }
void on_quick_exit() { refuse_exit("quick_exit"); }

void on_alarm(int) {
  const int saved = errno;
  if (const PluginFunction* call = latest)
    say({call->text(), " has not returned for 5 seconds; Ctrl-C ends it\n"});
  errno = saved;
}

void set_alarm(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

std::string_view running_plugin_call() noexcept {
  return running ? running->text() : std::string_view();
}

std::string last_plugin_call() { return ended ? std::string(ended->text()) : std::string(); }

void refuse_exit(std::string_view function) noexcept {
  if (!running) return;
  say({"error: ", running->text(), " called ", function, "()\n"});
  end_process(static_cast<int>(ExitCode::plugin));
}

void watch_plugin_calls() {
  struct sigaction alarm {};
  alarm.sa_handler = on_alarm;
  alarm.sa_flags = SA_RESTART;
  sigemptyset(&alarm.sa_mask);
  ::sigaction(SIGALRM, &alarm, nullptr);
  std::atexit(on_exit);
  std::at_quick_exit(on_quick_exit);
  watching = true;
}

PluginFunction::PluginFunction(const PluginIdentity& plugin, std::string_view family,
                               std::string_view function) {
  std::string text = fmt::format("plugin '{}' {}", plugin.id, plugin.version);
  if (!family.empty()) text += fmt::format(", family '{}'", family);
  text = printable(fmt::format("{} ({}): its {}", text, plugin.path, function), kMaxTextBytes - 8);
  text_bytes_ = std::min(text.size(), kMaxTextBytes);
  std::memcpy(text_, text.data(), text_bytes_);
}

PluginCall::PluginCall(const PluginIdentity& plugin, std::string_view family,
                       std::string_view function)
    : function_(plugin, family, function), outer_(running) {
  running = &function_;
  if (!watching) return;
  latest = &function_;
  set_alarm(kPatienceSeconds);
}

std::string PluginCall::change() const {
  compared_ = true;
  std::string out = guard_.restore();
  if (!out.empty()) out += " (C-10 of docs/plugin_requirements.md)";
  return out;
}

PluginCall::~PluginCall() {
  if (!compared_) (void)guard_.restore();
  ended = function_;
  running = outer_;
  if (!watching) return;
  latest = outer_;
  set_alarm(outer_ ? kPatienceSeconds : 0);
}

PluginShortCall::PluginShortCall(const PluginFunction& function) : outer_(running) {
  running = &function;
}

PluginShortCall::~PluginShortCall() { running = outer_; }

}  // namespace lamina::registry
