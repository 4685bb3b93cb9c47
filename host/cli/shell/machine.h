// The device that commands compute on: main() chooses it, and no other code names a backend.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/device.h"
#include "runtime/backend.h"

namespace lamina::cli {

inline constexpr int kMaxThreads = 1024;

struct Machine {
  const Backend& backend;
  const bench::Device& device;
  void (*set_threads)(int count, bool pinned);
  void (
      *unpin_this_thread)();  // for a thread that computes nothing and was started by a pinned one
  std::uint64_t (*available_memory)();  // bytes that this process may still use
  std::uint64_t (*resident_memory)();   // bytes of this process in memory

  // Uses the threads of -t, else as many as the process may use, pinned unless LAMINA_PIN=0.
  void use_threads(std::optional<int> wanted) const { set_threads(wanted.value_or(0), true); }
};

// The CPU.
const Machine& cpu_machine();

}  // namespace lamina::cli
