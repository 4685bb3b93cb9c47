// Measures the time of a program from exec to its first token, as a user waits for it.
#pragma once

#include <string>
#include <vector>

namespace lamina::bench {

struct StartTime {
  double first_output = 0;  // seconds from exec to the first byte on stdout
  double whole = 0;         // to the end of the process
};

// Runs a command, whose stderr is this process's, and waits for its end. Errors: it cannot be run
// or is ended by a signal (DeviceError); it ends with a code other than 0 (UserError with that
// code).
StartTime time_start(const std::vector<std::string>& words);

}  // namespace lamina::bench
