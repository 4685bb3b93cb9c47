// How long a program takes from exec to its first token: what a person waits for.
#pragma once

#include <string>
#include <vector>

namespace lamina::bench {

struct StartTime {
  double first_output = 0;  // seconds from exec to the first byte on stdout
  double whole = 0;         // to the end of the process
};

// Runs a command, whose stderr is this process's, and waits for its end. Errors: it cannot be run
// or is ended by a signal (DeviceError); it ends with another code than 0 (UserError of that code).
StartTime time_start(const std::vector<std::string>& words);

}  // namespace lamina::bench
