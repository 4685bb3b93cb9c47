// Runs a process with limits, and collects its output.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lamina::conformance {

struct ChildOptions {
  double processor_seconds = 10;
  double idle_seconds = 6;  // wall time without any processor time
  double seconds = 40;      // wall time
  bool limit_memory = true;
  bool elsewhere = false;  // another folder and other variables
  bool hostile = false;    // see Again::hostile
};

// The limit that a process has reached.
enum class Limit { none, processor, idle, clock };

struct ChildEnd {
  int status = 0;  // of waitpid()
  Limit limit = Limit::none;
  std::string out, err;  // the first part of each
  // "segmentation fault", "exit code 3".
  std::string how() const;
};

// Runs the program with stdin empty until it ends or reaches a limit; then it and all processes
// that it started are ended. Throws DeviceError if the system cannot create a process. [any thread]
ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& words,
                   const ChildOptions& options);

}  // namespace lamina::conformance
