// take_along: elements of each row by index; an index outside of the row gives 0.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const std::int64_t rows = num_rows(n.type(0)), from = n.type(0).dim(-1), to = n.type(1).dim(-1);
  return make_kernel([=, dtype = n.type(0).dtype](const KernelArgs& args) {
    const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
    with_floating(dtype, [&](auto type) {
      using T = decltype(type);
      const auto* x = static_cast<const T*>(args.inputs[0]);
      auto* y = static_cast<T*>(args.outputs[0]);
      parallel_ranges(rows, 1 + 8192 / (to + 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * to; i < end * to; ++i)
          y[i] = ids[i] >= 0 && ids[i] < from ? x[i / to * from + ids[i]] : T{};
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {{"elements", always, make}};

}  // namespace

std::span<const KernelChoice> take_along_kernels() { return kChoices; }

}  // namespace lamina::cpu
