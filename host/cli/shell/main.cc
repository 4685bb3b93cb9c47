// The program: starts a subcommand (commands.cc).
#include <csignal>
#include <new>
#include <string>
#include <vector>

#include "cli/shell/commands.h"
#include "cli/shell/last_words.h"
#include "cli/shell/program_clock.h"
#include "cli/shell/run.h"
#include "cli/shell/signals.h"
#include "cli/shell/terminal.h"
#include "io/mapping_faults.h"
#include "registry/plugin_call.h"

namespace cli = lamina::cli;

namespace {

// Handles signals that may end the process without a message, from the first moment on.
void prepare_signals() {
  cli::catch_save_signals();
  cli::end_on_sent_interrupts();
  cli::install_last_words();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Runs before the constructors of libraries, during which SIGUSR1 or a lack of memory may strike.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = prepare_signals;
#endif

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// LeakSanitizer sometimes crashes if threads live until the end, as the pool's do. The test
// programs find leaks.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

int main(int argc, char** argv) {
  cli::program_seconds();
  prepare_signals();
  cli::repair_standard_descriptors();
  cli::keep_output_apart();
  cli::require_stack();
  // A failed write, or a limit on file sizes, is an error that the writer handles.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  lamina::io::report_mapping_faults();
  lamina::registry::watch_plugin_calls();
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    return cli::run_program(cli::all_commands(), words);
  } catch (const std::bad_alloc&) {
    return cli::report_out_of_memory(false);
  }
}
