// Signal handlers that only set flags; everything in them is async-signal-safe.
#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace lamina::cli {
namespace {

std::atomic<int> stop{0};
std::atomic<bool> save{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_stop(int signal) {
  int none = 0;
  if (!stop.compare_exchange_strong(none, signal)) _exit(128 + signal);
  static constexpr char kText[] = "\nstopping after this step; once more to quit at once\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
}

extern "C" void on_save(int) { save = true; }

void install(int signal, void (*handler)(int)) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (signal == SIGHUP && before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  // A parent may have blocked it.
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

}  // namespace

void catch_stop_signals() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) install(signal, on_stop);
  install(SIGUSR1, on_save);
}

int stop_signal() { return stop; }

bool take_save_request() { return save.exchange(false); }

}  // namespace lamina::cli
