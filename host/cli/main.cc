// The program: everything interesting is in the subcommands (commands.cc).
#include <csignal>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "io/mapping_faults.h"

int main(int argc, char** argv) {
  lamina::cli::catch_save_signals();
  lamina::cli::repair_standard_descriptors();
  // A failed write is an error that the writer handles; a limit on file sizes likewise.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  lamina::io::report_mapping_faults();
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return lamina::cli::run_program(lamina::cli::all_commands(), words);
}
