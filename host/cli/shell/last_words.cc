// All code here works without memory: constant text, write(2), _exit().
#include "cli/shell/last_words.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <exception>
#include <new>
#include <string_view>

#include "cli/shell/terminal.h"
#include "core/end_process.h"
#include "core/error.h"
#include "core/write_all.h"
#include "registry/plugin_call.h"

namespace lamina::cli {
namespace {

constexpr std::string_view kOutOfMemory = "error: out of memory\n";
constexpr std::string_view kOutOfMemoryJson =
    "{\"error\":{\"code\":7,\"class\":\"memory\",\"where\":\"\",\"what\":\"out of memory\","
    "\"notes\":[]}}\n";

void say(std::initializer_list<std::string_view> parts) noexcept {
  for (std::string_view part : parts) (void)write_all(STDERR_FILENO, part);
}

[[noreturn]] void quit(ExitCode code) noexcept { end_process(static_cast<int>(code)); }

// Set once operator new has failed: if the process is then terminated because of an uncaught
// exception, that failure is the reason.
std::atomic<bool> ran_out{false};

void on_no_memory() {
  ran_out = true;
  throw std::bad_alloc();
}

[[noreturn]] void on_terminate() noexcept {
  if (!std::current_exception() && ran_out)
    quit(static_cast<ExitCode>(report_out_of_memory(false)));
  if (!std::current_exception()) {
    say({"internal error: terminated; please report\n"});
    quit(ExitCode::unclassified);
  }
  try {
    throw;
  } catch (const std::bad_alloc&) {
    quit(static_cast<ExitCode>(report_out_of_memory(false)));
  } catch (const Error& e) {
    say({"error: ", e.what(), "\n"});
    quit(e.code());
  } catch (const std::exception& e) {
    say({"internal error: ", e.what(), "; please report\n"});
  } catch (...) {
    say({"internal error: an exception of no known type; please report\n"});
  }
  quit(ExitCode::unclassified);
}

constexpr std::array<std::pair<int, std::string_view>, 5> kCrashes = {
    {{SIGSEGV, "segmentation fault"},
     {SIGBUS, "bus error"},
     {SIGFPE, "arithmetic exception"},
     {SIGILL, "illegal instruction"},
     {SIGABRT, "aborted"}}};

extern "C" void on_crash(int signal) {
  // libstdc++ 12 destroys unconstructed members if copying a std::variant throws; the following
  // crash is not the cause.
  if (memory_ran_out()) quit(static_cast<ExitCode>(report_out_of_memory(false)));
  const std::string_view call = registry::running_plugin_call();
  for (const auto& [number, name] : kCrashes)
    if (number == signal && !call.empty()) {
      say({"\nerror: ", call, " died: ", name, "\n"});
      quit(ExitCode::plugin);
    } else if (number == signal)
      say({"\ninternal error: ", name,
           ": raise the limits of memory and stack (`ulimit -a`) if there are any; otherwise "
           "please "
           "report\n"});
  raise(signal);  // blocked until this returns; SA_RESETHAND has restored the default action
}

// A crash of the main thread may be a stack overflow.
alignas(64) std::array<char, 32 * 1024> crash_stack;

void catch_crash(int signal) {
  struct sigaction before {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_DFL) return;  // installed by a sanitizer
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

// The stack of the deepest calls, with room for libraries.
constexpr rlim_t kStackBytes = rlim_t{1} << 20, kMinStackBytes = rlim_t{256} << 10;

// Makes the main thread's stack `bytes` larger now. Under a limit of the address space it could not
// grow later, once the heap has taken the rest: the process would then die by a signal in the
// middle of its work. If it cannot grow, on_crash() reports that memory is out.
[[gnu::noinline]] void grow_stack(rlim_t bytes) {
  constexpr rlim_t kPage = 4096;
  auto* stack = static_cast<volatile char*>(__builtin_alloca(bytes));
  const bool before = ran_out.exchange(true);
  for (rlim_t at = bytes; at >= kPage; at -= kPage) stack[at - kPage] = 0;
  ran_out = before;
}

// Replaces the C library's functions: a plugin that calls them would end the program without a
// message and with its own exit code.
[[noreturn]] void end_unless_plugin(std::string_view function, int code) noexcept {
  registry::refuse_exit(function);
  end_process(code);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void _exit(int code) { end_unless_plugin("_exit", code); }
extern "C" [[gnu::visibility("default")]] void _Exit(int code) noexcept {
  end_unless_plugin("_Exit", code);
}

int report_out_of_memory(bool json) noexcept {
  say({kOutOfMemory});
  if (json) (void)write_all(output_descriptor(), kOutOfMemoryJson);
  return static_cast<int>(ExitCode::memory);
}

bool memory_ran_out() noexcept { return ran_out; }

void install_last_words() {
  std::set_terminate(on_terminate);
  std::set_new_handler(on_no_memory);
  stack_t stack{};
  stack.ss_sp = crash_stack.data();
  stack.ss_size = crash_stack.size();
  sigaltstack(&stack, nullptr);
  for (const auto& [number, name] : kCrashes) catch_crash(number);
}

void require_stack() {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0) return;
  if (limit.rlim_cur < kStackBytes) {
    // The main thread's stack grows up to the current limit, not the limit at the start.
    limit.rlim_cur = std::min(limit.rlim_max, kStackBytes);
    setrlimit(RLIMIT_STACK, &limit);
    getrlimit(RLIMIT_STACK, &limit);
  }
  if (limit.rlim_cur < kMinStackBytes) {
    std::array<char, 24> number;
    char* end = std::to_chars(number.begin(), number.end(), limit.rlim_cur >> 10).ptr;
    say({"error: stack: at most ",
         {number.data(), end},
         " KiB are allowed; at least 256 KiB are needed\n  raise the limit: `ulimit -s 8192`\n"});
    quit(ExitCode::memory);
  }
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    grow_stack(std::min(limit.rlim_cur, kStackBytes) / 4 * 3);
  pthread_attr_t attributes;
  std::size_t thread_bytes = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  if (pthread_attr_getstacksize(&attributes, &thread_bytes) == 0 && thread_bytes < kStackBytes &&
      pthread_attr_setstacksize(&attributes, kStackBytes) == 0)
    pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace lamina::cli
