#include "cli/explain/occupancy_text.h"

#include <fmt/format.h>

#include "device/kernel_uses.h"

namespace lamina::cli {

std::string occupancy_text(const device::Device& gpu, Program& program) {
  std::string out = fmt::format(
      "== occupancy on {}\n"
      "Warps on a multiprocessor at once, by the compiler's report, of the largest launch of each "
      "kernel.\n  {:<22} {:<36} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}  {}\n",
      gpu.name(), "op", "kernel", "launches", "blocks", "threads", "registers", "shared", "warps",
      "limited by");
  for (const device::KernelUse& use : device::kernel_uses(gpu, program)) {
    out += fmt::format("  {:<22} {:<36} {:>8}", use.op, use.kernel, use.count);
    if (use.threads > 0)
      out += fmt::format(" {:>8} {:>8} {:>9} {:>9} {:>9}  {}", use.blocks, use.threads,
                         use.registers, use.shared_bytes,
                         fmt::format("{} of {}", use.warps, use.most_warps), use.limited_by);
    out += '\n';
  }
  return out + '\n';
}

}  // namespace lamina::cli
