// window_ends: a walk over the positions of each row.
#include <algorithm>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const std::int64_t batch = n.type(0).dim(0), tokens = n.type(0).dim(1), ratio = n.i("ratio");
  const std::int64_t windows = (tokens + ratio - 1) / ratio;
  return make_kernel([=](const KernelArgs& args) {
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int32_t* position = static_cast<const std::int32_t*>(args.inputs[0]) + b * tokens;
      const auto row = [&](int output) -> std::int32_t* {
        auto* all = static_cast<std::int32_t*>(args.outputs[static_cast<std::size_t>(output)]);
        return all ? all + b * windows : nullptr;
      };
      std::int32_t *ends = row(0), *starts = row(1);
      std::int64_t found = 0;
      for (std::int64_t t = 0; t < tokens && found < windows; ++t) {
        if ((position[t] + 1) % ratio != 0) continue;
        if (ends) ends[found] = static_cast<std::int32_t>(t);
        if (starts) starts[found] = static_cast<std::int32_t>(position[t] + 1 - ratio);
        ++found;
      }
      if (ends) std::fill(ends + found, ends + windows, -1);
      if (starts) std::fill(starts + found, starts + windows, 0);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"loop", always, make}};

}  // namespace

std::span<const KernelChoice> window_ends_kernels() { return kChoices; }

}  // namespace lamina::cpu
