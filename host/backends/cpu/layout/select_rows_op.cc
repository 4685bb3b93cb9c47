// select_rows: one row copied from each x[b]; a row outside of x gives zeros.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t batch = x.dim(0), rows = x.dim(1);
  const std::int64_t row_bytes = x.dim(2) * size_bytes(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* row_of = static_cast<const std::int32_t*>(args.inputs[1]);
    if (row_bytes == 0) return;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::byte* to = at_byte(args.outputs[0], b * row_bytes);
      const std::int64_t row = row_of[b];
      if (row < 0 || row >= rows)
        std::memset(to, 0, static_cast<std::size_t>(row_bytes));
      else
        std::memcpy(to, at_byte(args.inputs[0], (b * rows + row) * row_bytes),
                    static_cast<std::size_t>(row_bytes));
    }
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> select_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
