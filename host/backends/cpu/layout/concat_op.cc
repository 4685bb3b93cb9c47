// concat: for each place before the dim one run of memory from each input.
#include <vector>

#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  const Type& y = n.out_type();
  const int dim = counted_dim(n.i("dim"), y.ndim());
  const std::int64_t inner = product(y.shape, dim + 1, y.ndim()) * size_bytes(y.dtype);
  const std::int64_t outer = product(y.shape, 0, dim);
  const std::int64_t to = y.dim(dim) * inner;
  std::vector<std::int64_t> runs;
  for (int i = 0; i < n.num_inputs(); ++i) runs.push_back(n.type(i).dim(dim) * inner);
  return make_kernel([=](const KernelArgs& args) {
    if (to == 0) return;
    parallel_ranges(outer, 1 + kMinCopyBytes / to, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        std::byte* row = at_byte(args.outputs[0], o * to);
        for (std::size_t i = 0; i < runs.size(); ++i) {
          if (runs[i] == 0) continue;
          std::memcpy(row, at_byte(args.inputs[i], o * runs[i]), static_cast<std::size_t>(runs[i]));
          row += runs[i];
        }
      }
    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace

std::span<const KernelChoice> concat_kernels() { return kChoices; }

}  // namespace lamina::cpu
