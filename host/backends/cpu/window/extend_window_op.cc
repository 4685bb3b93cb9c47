// extend_window: copies of token rows.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(1);
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), kept = n.type(0).dim(1);
  const std::int64_t row_bytes = product(x.shape, 2, x.ndim()) * size_bytes(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* start = static_cast<const std::int32_t*>(args.inputs[2]);
    const auto* count = static_cast<const std::int32_t*>(args.inputs[3]);
    for (std::int64_t b = 0; b < batch; ++b) {
      // Row i of the old window followed by this call's tokens, to `to`.
      const auto copy_row = [&](std::int64_t i, std::byte* to) {
        const auto bytes = static_cast<std::size_t>(row_bytes);
        if (i >= kept)
          std::memcpy(to, at_byte(args.inputs[1], (b * tokens + i - kept) * row_bytes), bytes);
        else if (start[b] == 0)
          std::memset(to, 0, bytes);
        else
          std::memmove(to, at_byte(args.inputs[0], (b * kept + i) * row_bytes), bytes);
      };
      for (std::int64_t i = 0; args.outputs[1] && i < kept + tokens; ++i)
        copy_row(i, at_byte(args.outputs[1], (b * (kept + tokens) + i) * row_bytes));
      // Reads ahead of where it writes, so that both may be the same memory.
      for (std::int64_t i = 0; args.outputs[0] && i < kept; ++i)
        copy_row(count[b] + i, at_byte(args.outputs[0], (b * kept + i) * row_bytes));
    }
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> extend_window_kernels() { return kChoices; }

}  // namespace lamina::cpu
