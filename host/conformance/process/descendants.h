// The processes of checks: they end with the kit, and processes started by a plugin end with their
// check.
#pragma once

#include <sys/types.h>

#include <string>

namespace lamina::conformance {

// While one exists, SIGINT, SIGTERM and SIGHUP end the running checks before they end this process,
// and processes that a plugin has started become children of this one when their parents end. [one
// at a time]
class EndsChecksWithKit {
 public:
  EndsChecksWithKit();
  ~EndsChecksWithKit();
  EndsChecksWithKit(const EndsChecksWithKit&) = delete;
  EndsChecksWithKit& operator=(const EndsChecksWithKit&) = delete;
};

// Calls fork(); returns 0 in the child. The child must become the leader of a process group. [any
// thread]
pid_t fork_check();
// Ends the group of a check that has been waited for, and all processes left behind by finished
// checks. [any thread]
void end_check(pid_t check);

// Returns the fields of /proc/PID/stat after the name: "S 4711 ..."; "" if it has ended. [any
// thread]
std::string state_of_process(pid_t process);

// In the process of a check: processes that the plugin forks end with it. [before other threads]
void end_forks_with_this_process();
// Returns true if this process has child processes, which a plugin started. [the process of a
// check]
bool has_child_processes();

}  // namespace lamina::conformance
