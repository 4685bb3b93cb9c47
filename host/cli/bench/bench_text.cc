#include "cli/bench/bench_text.h"

#include <fmt/format.h>

namespace lamina::cli {

std::string machine_text(const device::Device& device) {
  const int threads = device.num_threads();
  return fmt::format("{} thread{}, {}", threads, threads == 1 ? "" : "s", device.isa());
}

std::string flops_text(double flops) { return fmt::format("{:.1f} GFLOP/s", flops * 1e-9); }
std::string bandwidth_text(double bytes) { return fmt::format("{:.1f} GB/s", bytes * 1e-9); }

}  // namespace lamina::cli
