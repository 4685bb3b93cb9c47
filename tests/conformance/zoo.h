// The plugins in plain C with one fault each, for checks of the program.
#pragma once

#include <ostream>
#include <string_view>
#include <vector>

namespace lamina::conformance {

struct WrongPlugin {
  std::string_view fault;                   // the row of the matrix
  std::string_view file;                    // in the zoo, without its suffix
  std::vector<std::string_view> caught_by;  // all checks that fail, crash or time out
  std::string_view level = "quick";
  std::string_view outcome = "fail";
  std::vector<std::string_view> only = {};  // runs only these checks, because others are slow
  std::string_view golden = {};             // a golden case of tests/golden/hf

  friend std::ostream& operator<<(std::ostream& out, const WrongPlugin& c) { return out << c.file; }
};

inline std::vector<WrongPlugin> wrong_plugins() {
  return {
      {"a second symbol is exported", "two_exports", {"FIL-1"}},
      {"the library calls abort", "abort", {"FIL-2"}},
      {"a function runs when it is loaded", "constructor", {"FIL-2"}},
      {"a newer C library is needed",
       "newer_libc",
       {"FIL-2"},
       "quick",
       "fail",
       {"FIL-1", "FIL-2", "FIL-3"}},
      {"the manifest has no doc line", "no_doc", {"FIL-3"}},
      {"a struct is smaller than its least size", "struct_size", {"ABI-1"}},
      {"init writes to standard error", "prints", {"LOD-1"}},
      {"a build writes to standard output", "chatty", {"LOD-1"}},
      {"init takes half a second", "slow", {"LOD-1"}, "quick", "fail", {"FIL-2", "LOD-1", "LOD-3"}},
      {"init starts a thread", "thread", {"FIL-2", "LOD-1"}},
      {"init changes a signal", "signal", {"FIL-2", "LOD-1"}},
      {"a build changes the working directory", "chdir", {"FIL-2", "LOD-1"}},
      {"a build changes the locale", "locale", {"FIL-2", "LOD-1"}},
      {"a build changes the environment", "environment", {"FIL-2", "LOD-1"}},
      {"a build changes the rounding of floating-point numbers", "rounding", {"LOD-1"}},
      {"a build starts a process", "fork", {"FIL-2", "LOD-1"}},
      {"a build starts a thread once", "build_thread", {"FIL-2", "LOD-1"}},
      {"a build leaves a file open", "open_file", {"LOD-1"}},
      {"a build keeps memory", "build_memory", {"LOD-1"}},
      {"a build writes to a file", "writes_file", {"LOD-1"}},
      {"a build never returns", "sleeps", {"TRC-2"}, "quick", "timeout", {"ABI-1", "TRC-2"}},
      {"the first deinit undoes every init", "no_nesting", {"LOD-2"}},
      {"a nearly right interface id gets an interface", "any_interface", {"LOD-3"}},
      {"init reads beyond the host's table",
       "old_hosts_end",
       {"ABI-2"},
       "full",
       "crash",
       {"ABI-1", "ABI-2", "ABI-3"}},
      {"init refuses a host with a struct of another size",
       "exact_host",
       {"ABI-3"},
       "full",
       "fail",
       {"ABI-1", "ABI-2", "ABI-3", "LIF-1"}},
      {"init refuses a host that abi_min_host allows",
       "newer_host",
       {"ABI-4"},
       "full",
       "fail",
       {"ABI-1", "ABI-2", "ABI-3", "ABI-4"}},
      {"init keeps memory", "leaks", {"LIF-1"}, "full", "fail", {"LOD-1", "LIF-1", "LIF-2"}},
      {"two copies share a variable of the process",
       "twins",
       {"LIF-2"},
       "full",
       "fail",
       {"LOD-2", "LIF-1", "LIF-2"}},
      {"a build ignores failed calls",
       "ignores_failures",
       {"ERR-1"},
       "full",
       "fail",
       {"TRC-1", "ERR-1", "ERR-2", "ERR-3"}},
      {"a number depends on the process", "process", {"TRC-1"}},
      {"the plan does not end", "endless_plan", {"PLN-1"}, "quick", "timeout", {"ABI-1", "PLN-1"}},
      {"a build reads address 0", "crash", {"TRC-2"}, "quick", "crash", {"ABI-1", "TRC-2"}},
      {"a build ends the process with exit code 0",
       "exits",
       {"TRC-2"},
       "quick",
       "crash",
       {"ABI-1", "TRC-2"}},
      {"a kernel reads address 0", "kernel_crash", {"GRD-3"}, "full", "crash", {"TRC-2", "GRD-3"}},
      {"a kernel starts a thread",
       "kernel_thread",
       {"FIL-2", "GRD-3"},
       "full",
       "fail",
       {"FIL-2", "TRC-2", "GRD-3"}},
      {"a kernel keeps memory", "kernel_memory", {"GRD-3"}, "full", "fail", {"TRC-2", "GRD-3"}},
      {"a kernel writes to standard output",
       "kernel_prints",
       {"GRD-3"},
       "full",
       "fail",
       {"TRC-2", "GRD-3"}},
      {"a kernel changes the rounding of floating-point numbers",
       "kernel_rounding",
       {"GRD-3"},
       "full",
       "fail",
       {"TRC-2", "GRD-3"}},
      {"a build takes all memory", "all_memory", {"TRC-2"}, "quick", "crash", {"ABI-1", "TRC-2"}},
      {"a build needs HOME", "needs_home", {"SEC-1"}, "pedantic", "crash", {"TRC-1", "SEC-1"}},
      {"a golden case belongs to another model",
       "none",
       {"NUM-3"},
       "full",
       "fail",
       {"TRC-2", "NUM-3"},
       "gpt2_prefixed"},
  };
}

}  // namespace lamina::conformance
