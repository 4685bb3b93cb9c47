// pad: for each place before the dim zeros, one run of memory, zeros.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  const std::int64_t inner = product(x.shape, dim + 1, x.ndim()) * size_bytes(x.dtype);
  const std::int64_t outer = product(x.shape, 0, dim);
  const std::int64_t before = n.i("before") * inner, after = n.i("after") * inner;
  const std::int64_t from = x.dim(dim) * inner, to = before + from + after;
  return make_kernel([=](const KernelArgs& args) {
    if (to == 0) return;
    parallel_ranges(outer, 1 + kMinCopyBytes / to, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        std::byte* row = at_byte(args.outputs[0], o * to);
        std::memset(row, 0, static_cast<std::size_t>(before));
        if (from)
          std::memcpy(row + before, at_byte(args.inputs[0], o * from),
                      static_cast<std::size_t>(from));
        std::memset(row + before + from, 0, static_cast<std::size_t>(after));
      }
    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> pad_kernels() { return kChoices; }

}  // namespace lamina::cpu
