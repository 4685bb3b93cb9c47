// The processes that checks run in: they end with the kit, and none that a plugin has started
// outlives its check.
#pragma once

#include <sys/types.h>

#include <string>

namespace lamina::conformance {

// While one exists, SIGINT, SIGTERM and SIGHUP end the running checks before they end this process,
// and processes that a plugin has started become children of this one when their parents end.
// [one at a time]
class EndsChecksWithKit {
 public:
  EndsChecksWithKit();
  ~EndsChecksWithKit();
  EndsChecksWithKit(const EndsChecksWithKit&) = delete;
  EndsChecksWithKit& operator=(const EndsChecksWithKit&) = delete;
};

// fork(), in the child 0. The child must become the leader of a process group. [any thread]
pid_t fork_check();
// Ends the group of a check that has been waited for, and all processes that checks which are over
// have left behind. [any thread]
void end_check(pid_t check);

// Returns the fields of /proc/PID/stat after the name: "S 4711 ..."; "" where it has ended. [any
// thread]
std::string state_of_process(pid_t process);

// In the process of a check: processes that the plugin forks end with it. [before other threads]
void end_forks_with_this_process();
// Returns whether this process has child processes: those of a plugin. [the process of a check]
bool has_child_processes();

}  // namespace lamina::conformance
