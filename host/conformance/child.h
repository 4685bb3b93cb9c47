// A process with limits, and what it said.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lamina::conformance {

struct ChildOptions {
  double processor_seconds = 10;
  double idle_seconds = 6;  // on the clock, without any use of the processor
  double seconds = 40;      // on the clock
  bool elsewhere = false;   // another folder and other variables
  bool hostile = false;     // see Again::hostile
};

// The limit that a process has met.
enum class Limit { none, processor, idle, clock };

struct ChildEnd {
  int status = 0;  // of waitpid()
  Limit limit = Limit::none;
  std::string out, err;  // the beginning of each
  // "segmentation fault", "exit code 3".
  std::string how() const;
};

// Runs the program with stdin empty until it ends or meets a limit; then it has ended, and so have
// all processes that it started. Throws DeviceError where the system gives no process. [any thread]
ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& words,
                   const ChildOptions& options);

}  // namespace lamina::conformance
