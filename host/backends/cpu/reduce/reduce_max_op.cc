// reduce_max: blocks, or plain loops; any dims. NaN wins.
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels.h"
#include "backends/cpu/reduce/reduction.h"

namespace lamina::cpu {
namespace {

Verdict supports(const NodeView& n) {
  const DType dtype = n.type(0).dtype;
  if (!is_floating(dtype) && dtype != DType::i32 && dtype != DType::i64)
    return Verdict::no("takes floats, i32 and i64, got " + to_string(n.type(0)));
  return Verdict::yes();
}

template <typename T>
void largest(const Reduction& r, const void* x, void* y) {
  using Wide = typename Number<T>::Wide;
  auto lowest = [] {
    if constexpr (std::is_integral_v<T>)
      return static_cast<Wide>(std::numeric_limits<T>::lowest());
    else
      return -std::numeric_limits<Wide>::infinity();
  };
  reduce_in_order(
      r, lowest,
      [x = static_cast<const T*>(x)](Wide& max, std::int64_t at) {
        const Wide value = Number<T>::load(x[at]);
        if (value > max || value != value) max = value;
      },
      [y = static_cast<T*>(y)](std::int64_t o, Wide max) { y[o] = Number<T>::store(max); });
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  return make_kernel([r = reduction_of(n), dtype = n.type(0).dtype](const KernelArgs& args) {
    with_number(dtype, [&](auto x) { largest<decltype(x)>(r, args.inputs[0], args.outputs[0]); });
  });
}

Verdict supports_vector(const NodeView& n) {
  if (n.type(0).dtype == DType::f16)
    return Verdict::no("takes f32, bf16, f64, i32 and i64, got f16");
  return supports(n);
}

std::unique_ptr<Kernel> make_vector(const NodeView& n) {
  return make_vector_reduction(n, ReduceOp::max);
}

constexpr KernelChoice kChoices[] = {{"vector", supports_vector, make_vector},
                                     {"reference", supports, make}};

}  // namespace

std::span<const KernelChoice> reduce_max_kernels() { return kChoices; }

}  // namespace lamina::cpu
