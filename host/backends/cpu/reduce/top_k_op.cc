// top_k: one walk over each row that keeps the best k so far in order; most elements lose against
// the worst of them.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

// NaNs come first, so that they are seen; equal elements by rising index.
template <typename Wide>
bool comes_before(Wide a, Wide b) {
  return a > b || (a != a && b == b);
}

template <typename T>
void best_of_row(const T* x, std::int64_t width, std::int64_t k, T* values, std::int32_t* ids) {
  using N = Number<T>;
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    const auto value = N::load(x[i]);
    if (kept == k && !comes_before(value, N::load(values[k - 1]))) continue;
    std::int64_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && comes_before(value, N::load(values[at - 1])); --at) {
      values[at] = values[at - 1];
      ids[at] = ids[at - 1];
    }
    values[at] = x[i];
    ids[at] = static_cast<std::int32_t>(i);
  }
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  const std::int64_t rows = num_rows(n.type(0)), width = n.type(0).dim(-1), k = n.i("k");
  return make_kernel([=, dtype = n.type(0).dtype](const KernelArgs& args) {
    with_floating(dtype, [&](auto type) {
      using T = decltype(type);
      const auto* x = static_cast<const T*>(args.inputs[0]);
      auto* values = static_cast<T*>(args.outputs[0]);
      auto* ids = static_cast<std::int32_t*>(args.outputs[1]);
      parallel_ranges(rows, 1 + 8192 / width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
          best_of_row(x + r * width, width, k, values + r * k, ids + r * k);
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {
    {.name = "insertion", .supports = always, .make = make, .writes_all = true}};

}  // namespace

std::span<const KernelChoice> top_k_kernels() { return kChoices; }

}  // namespace lamina::cpu
