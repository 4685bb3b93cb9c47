// The device that commands compute on: main() makes it, and nothing else names a backend.
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
  void (*unpin_this_thread)();  // for one that computes nothing and was started by one that does
  std::uint64_t (*available_memory)();  // bytes that this process may still use
  std::uint64_t (*resident_memory)();   // bytes that it has in memory

  // Threads as -t says, else as many as the process may use, pinned unless LAMINA_PIN=0.
  void use_threads(std::optional<int> wanted) const { set_threads(wanted.value_or(0), true); }
};

// The CPU, the one there is.
const Machine& cpu_machine();

}  // namespace lamina::cli
