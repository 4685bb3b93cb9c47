// A process with limits, and what it said.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lamina::conformance {

struct ChildOptions {
  double processor_seconds = 10;
  double seconds = 40;     // on the clock
  bool elsewhere = false;  // another folder and other variables
  bool hostile = false;    // see Again::hostile
};

struct ChildEnd {
  int status = 0;  // of waitpid()
  bool timed_out = false;
  std::string out, err;  // the beginning of each
  // "segmentation fault", "exit code 3".
  std::string how() const;
};

// Runs the program with stdin empty, and waits for its end. Throws DeviceError where the system
// gives no process. [any thread]
ChildEnd run_child(const std::filesystem::path& program, const std::vector<std::string>& words,
                   const ChildOptions& options);

}  // namespace lamina::conformance
