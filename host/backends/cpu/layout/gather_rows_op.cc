// gather_rows: rows copied; a place outside of x gives zeros.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const std::int64_t rows = num_rows(x), gathered = n.type(1).dim(0), divide = n.i("divide");
  const std::int64_t row_bytes = x.dim(-1) * size_bytes(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* order = static_cast<const std::int32_t*>(args.inputs[1]);
    if (row_bytes == 0) return;
    parallel_ranges(gathered, 1 + kMinCopyBytes / row_bytes,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        std::byte* to = at_byte(args.outputs[0], r * row_bytes);
                        const std::int64_t row = order[r] / divide;
                        if (order[r] < 0 || row >= rows)
                          std::memset(to, 0, static_cast<std::size_t>(row_bytes));
                        else
                          std::memcpy(to, at_byte(args.inputs[0], row * row_bytes),
                                      static_cast<std::size_t>(row_bytes));
                      }
                    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> gather_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
