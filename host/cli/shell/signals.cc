// Signal handlers that only set flags; all code in them is async-signal-safe.
#include "cli/shell/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "core/end_process.h"

namespace lamina::cli {
namespace {

std::atomic<int> stop{0};
std::atomic<bool> save{false}, interrupt{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_stop(int signal) {
  int none = 0;
  if (!stop.compare_exchange_strong(none, signal)) end_process(128 + signal);
  static constexpr char kText[] = "\nstopping; a second signal quits at once\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);  // never blocks
}

extern "C" void on_save(int) { save = true; }
extern "C" void on_interrupt(int) { interrupt = true; }

bool is_sent(const siginfo_t& from) {
  return from.si_code <= 0;  // SI_USER, SI_TKILL, SI_QUEUE
}

// For a signal that the parent ignored: reacts only to a signal sent by a process, not to the
// terminal's Ctrl-C.
extern "C" void on_stop_sent(int signal, siginfo_t* from, void*) {
  if (is_sent(*from)) on_stop(signal);
}
extern "C" void on_end_sent(int signal, siginfo_t* from, void*) {
  if (is_sent(*from)) end_process(128 + signal);
}
extern "C" void on_interrupt_sent(int, siginfo_t* from, void*) {
  if (is_sent(*from)) interrupt = true;
}

bool is_ignored(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  return before.sa_handler == SIG_IGN;
}

void install(int signal, struct sigaction action) {
  action.sa_flags |= SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  // The parent may have blocked it.
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  install(signal, action);
}

void install(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  install(signal, action);
}

bool parent_ignores_interrupts = false;

}  // namespace

void catch_save_signals() {
  for (int signal : {SIGUSR1, SIGUSR2}) install(signal, on_save);
}

void end_on_sent_interrupts() {
  if (is_ignored(SIGINT)) parent_ignores_interrupts = true;
  if (parent_ignores_interrupts) install(SIGINT, on_end_sent);
}

void catch_stop_signals() {
  if (parent_ignores_interrupts || is_ignored(SIGINT))
    install(SIGINT, on_stop_sent);
  else
    install(SIGINT, on_stop);
  for (int signal : {SIGTERM, SIGHUP})
    if (!is_ignored(signal)) install(signal, on_stop);
}

void catch_interrupts() {
  if (parent_ignores_interrupts || is_ignored(SIGINT))
    install(SIGINT, on_interrupt_sent);
  else
    install(SIGINT, on_interrupt);
}

bool take_interrupt() { return interrupt.exchange(false); }

int stop_signal() { return stop; }

void end_if_asked() {
  if (stop_signal() != 0) throw StopAsked{};
}

bool take_save_request() { return save.exchange(false); }

}  // namespace lamina::cli
