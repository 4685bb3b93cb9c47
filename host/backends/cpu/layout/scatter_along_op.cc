// scatter_along: elements of each row summed by index, in order, and rounded once; indices outside
// are dropped.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

template <typename T>
void add_row(const T* x, const std::int32_t* ids, std::int64_t from, std::int64_t to,
             typename Number<T>::Wide* sums, T* y) {
  for (std::int64_t n = 0; n < to; ++n) sums[n] = 0;
  for (std::int64_t j = 0; j < from; ++j)
    if (ids[j] >= 0 && ids[j] < to) sums[ids[j]] += Number<T>::load(x[j]);
  for (std::int64_t n = 0; n < to; ++n) y[n] = Number<T>::store(sums[n]);
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const std::int64_t rows = num_rows(n.type(0)), from = n.type(0).dim(-1), to = n.i("size");
  const auto sums_bytes = aligned(static_cast<std::size_t>(to) * sizeof(double));
  return make_kernel(
      [=, dtype = n.type(0).dtype](const KernelArgs& args) {
        const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
        with_floating(dtype, [&](auto type) {
          using T = decltype(type);
          const auto* x = static_cast<const T*>(args.inputs[0]);
          auto* y = static_cast<T*>(args.outputs[0]);
          parallel_ranges(rows, 1 + 8192 / (from + to + 1),
                          [&](std::int64_t begin, std::int64_t end, int thread) {
                            auto* sums = reinterpret_cast<typename Number<T>::Wide*>(
                                args.workspace + sums_bytes * static_cast<std::size_t>(thread));
                            for (std::int64_t r = begin; r < end; ++r)
                              add_row(x + r * from, ids + r * from, from, to, sums, y + r * to);
                          });
        });
      },
      sums_bytes * static_cast<std::size_t>(num_threads()));
}

constexpr KernelChoice kChoices[] = {{"elements", always, make}};

}  // namespace

std::span<const KernelChoice> scatter_along_kernels() { return kChoices; }

}  // namespace lamina::cpu
