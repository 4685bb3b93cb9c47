// combine_rows: the rows of a token are found through the inverse of the order and summed in one
// pass; in plain loops for f64 and f16.
#include "backends/cpu/device/threads.h"
#include "backends/cpu/experts/row_order.h"
#include "backends/cpu/experts/rows.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

struct Sizes {
  std::int64_t rows, width, k, tokens;
  explicit Sizes(const NodeView& n)
      : rows(n.type(0).dim(0)),
        width(n.type(0).dim(1)),
        k(n.type(2).dim(-1)),
        tokens(num_rows(n.type(2))) {}
  std::size_t places_bytes() const { return static_cast<std::size_t>(rows) * sizeof(std::int32_t); }
};

std::unique_ptr<Kernel> make_vector(const NodeView& n) {
  return make_kernel(
      [s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
        auto* places = reinterpret_cast<std::int32_t*>(args.workspace);
        invert_order(static_cast<const std::int32_t*>(args.inputs[1]), s.rows, places);
        combine_rows({.num_tokens = s.tokens,
                      .k = s.k,
                      .width = s.width,
                      .dtype = dtype,
                      .x = args.inputs[0],
                      .places = places,
                      .weights = static_cast<const float*>(args.inputs[2]),
                      .y = args.outputs[0]});
      },
      Sizes(n).places_bytes());
}

template <typename T>
void combine(const Sizes& s, const KernelArgs& args, const std::int32_t* places) {
  using Wide = typename Number<T>::Wide;
  const T* x = static_cast<const T*>(args.inputs[0]);
  const Wide* weights = static_cast<const Wide*>(args.inputs[2]);
  T* y = static_cast<T*>(args.outputs[0]);
  parallel_tasks(s.tokens, [&](std::int64_t m) {
    for (std::int64_t i = 0; i < s.width; ++i) {
      Wide sum = 0;
      for (std::int64_t j = 0; j < s.k; ++j)
        sum += weights[m * s.k + j] * Number<T>::load(x[places[m * s.k + j] * s.width + i]);
      y[m * s.width + i] = Number<T>::store(sum);
    }
  });
}

std::unique_ptr<Kernel> make_reference(const NodeView& n) {
  return make_kernel(
      [s = Sizes(n), dtype = n.type(0).dtype](const KernelArgs& args) {
        auto* places = reinterpret_cast<std::int32_t*>(args.workspace);
        invert_order(static_cast<const std::int32_t*>(args.inputs[1]), s.rows, places);
        with_floating(dtype, [&](auto type) { combine<decltype(type)>(s, args, places); });
      },
      Sizes(n).places_bytes());
}

constexpr KernelChoice kChoices[] = {
    {"vector", only_f32_and_bf16, make_vector},
    {"reference", always, make_reference},
};

}  // namespace

std::span<const KernelChoice> combine_rows_kernels() { return kChoices; }

}  // namespace lamina::cpu
