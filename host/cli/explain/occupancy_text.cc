#include "cli/explain/occupancy_text.h"

#include <fmt/format.h>

#include "device/kernel_launches.h"

namespace lamina::cli {

std::string occupancy_text(const device::Device& gpu, Program& program) {
  std::string out = fmt::format(
      "== occupancy on {}\n"
      "Warps on a multiprocessor at once, by the compiler's report, of the largest launch of each "
      "kernel.\n  {:<22} {:<36} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}  {}\n",
      gpu.name(), "op", "kernel", "launches", "blocks", "threads", "registers", "shared", "warps",
      "limited by");
  for (const device::KernelLaunches& kernel : device::kernel_launches(gpu, program)) {
    out += fmt::format("  {:<22} {:<36} {:>8}", kernel.op, kernel.kernel, kernel.count);
    if (kernel.threads > 0)
      out +=
          fmt::format(" {:>8} {:>8} {:>9} {:>9} {:>9}  {}", kernel.blocks, kernel.threads,
                      kernel.registers, kernel.shared_bytes,
                      fmt::format("{} of {}", kernel.warps, kernel.most_warps), kernel.limited_by);
    out += '\n';
  }
  return out + '\n';
}

}  // namespace lamina::cli
