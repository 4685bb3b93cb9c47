// A child process under torture: started with limits and faults, watched, signalled, waited for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct fault_state;

namespace lamina::torture {

// The fault that the preloaded library injects, see fault_injection.c.
struct Fault {
  std::string calls = {};  // "write,fsync"; empty: no library is preloaded
  std::string path = {};   // a part of the path; empty: every file
  std::uint64_t first = 1;
  std::uint64_t times = 1;  // 0: all calls from `first`
  std::string action = "EIO";
};

struct Launch {
  std::vector<std::string> words;             // words[0] is the program's path
  std::string folder;                         // working directory, and folder of its output files
  std::vector<std::string> environment = {};  // "NAME=value", added to the driver's
  std::vector<int> blocked_signals = {};
  double seconds = 60;               // killed after that much wall time
  std::uint64_t cpu_seconds = 0;     // 0: no limit
  std::uint64_t memory_bytes = 0;    // of address space; 0: no limit
  std::uint64_t max_file_bytes = 0;  // 0: no limit
  Fault fault = {};
};

struct Ended {
  int code = 0;    // the exit code if signal is 0
  int signal = 0;  // the signal that ended it
  bool timed_out = false;
  double seconds = 0;
  std::string out, err;  // the first MiB of each
  std::uint64_t num_calls = 0, num_struck = 0;
  std::string struck_call, struck_path;  // the first

  bool struck() const { return num_struck > 0; }
  // "exit code 4", "signal 11 (Segmentation fault)", "no end within 120 s"
  std::string text() const;
};

class Child {
 public:
  // Starts the process. Throws std::system_error if the system refuses.
  explicit Child(Launch launch);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();  // kills a running process

  void send(int signal) const;
  // Waits up to `seconds` for the end; true if the process has ended.
  bool ends_within(double seconds);
  Ended wait();
  // Number of struck calls so far.
  std::uint64_t num_struck() const;
  // For each thread, the number of CPUs on which it may run.
  std::vector<int> cpus_of_threads() const;
  // True if the process handles or ignores `signal`.
  bool handles(int signal) const;

 private:
  Launch launch_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::chrono::steady_clock::time_point start_;
  double seconds_ = 0;
  std::string stem_;                 // of its output files
  fault_state* counters_ = nullptr;  // mapped
};

inline Ended run(Launch launch) { return Child(std::move(launch)).wait(); }

// Pauses this thread.
void rest(double seconds);

}  // namespace lamina::torture
