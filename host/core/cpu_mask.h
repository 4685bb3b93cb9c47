// The CPUs that a thread may run on.
#pragma once

#include <sched.h>

#include <array>
#include <cstddef>

namespace lamina {

// A CPU mask of any size; glibc's fixed one ends at 1024 CPUs.
class CpuMask {
 public:
  static constexpr int kMaxCpus = 8192;  // the kernel's largest NR_CPUS

  void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), sizeof sets_, sets_.data()); }
  bool has(int cpu) const {
    return CPU_ISSET_S(static_cast<std::size_t>(cpu), sizeof sets_, sets_.data());
  }
  // Reads the mask of the calling thread. Returns false if the system does not report it.
  bool read() { return sched_getaffinity(0, sizeof sets_, sets_.data()) == 0; }
  // Sets the mask of the calling thread. A refusal only makes it slower.
  void apply() const { (void)sched_setaffinity(0, sizeof sets_, sets_.data()); }

 private:
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> sets_{};
};

// Returns the CPUs that the process was allowed at the first call, which must come before a thread
// is pinned; null if the system does not report them. [any thread]
const CpuMask* allowed_cpus();

// Gives the calling thread all of them. A std::thread started by a pinned thread inherits its one
// CPU, so background threads (loaders, writers) call this first.
void unpin_this_thread();

}  // namespace lamina
