// The kernels of reduce_sum and reduce_max.
#include <cmath>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/reduce/reduction.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

// Blocks of f32 added up in f64, or plain loops; any dims.
namespace reduce_sum_op {

bool has_arithmetic(DType dtype) {
  return is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64;
}

Verdict supports(const NodeView& n) {
  const DType in = n.type(0).dtype, out = n.out_type().dtype;
  if (!has_arithmetic(in) || !has_arithmetic(out) || is_floating(in) != is_floating(out))
    return Verdict::no("sums floats into floats and i32 or i64 into these, not " +
                       to_string(n.type(0)) + " into " + std::string(name(out)));
  return Verdict::yes();
}

template <typename In, typename Out>
void sum(const Reduction& r, const void* x, void* y) {
  using Sum = std::conditional_t<std::is_integral_v<In>, std::int64_t, double>;
  reduce_in_order(
      r, [] { return Sum{0}; },
      [x = static_cast<const In*>(x)](Sum& s, std::int64_t at) { s += Number<In>::load(x[at]); },
      [y = static_cast<Out*>(y)](std::int64_t o, Sum s) {
        y[o] = Number<Out>::store(static_cast<typename Number<Out>::Wide>(s));
      });
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([r = reduction_of(n), in = n.type(0).dtype,
                      out = n.out_type().dtype](const KernelArgs& args) {
    with_number(in, [&](auto x) {
      with_number(out, [&](auto y) {
        if constexpr (std::is_integral_v<decltype(x)> == std::is_integral_v<decltype(y)>)
          sum<decltype(x), decltype(y)>(r, args.inputs[0], args.outputs[0]);
      });
    });
  });
}

Verdict supports_vector(const NodeView& n) {
  for (DType dtype : {n.type(0).dtype, n.out_type().dtype})
    if (dtype == DType::f16) return Verdict::no("takes f32, bf16, f64, i32 and i64, got f16");
  return supports(n);
}

std::unique_ptr<Kernel> make_vector(const NodeView& n, Context&) {
  return make_vector_reduction(n, ReduceOp::sum);
}

constexpr KernelChoice kChoices[] = {{"vector", supports_vector, make_vector},
                                     {"reference", supports, make}};

}  // namespace reduce_sum_op

// Blocks, or plain loops; any dims. NaN wins.
namespace reduce_max_op {

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
        if (value > max || std::isnan(value)) max = value;
      },
      [y = static_cast<T*>(y)](std::int64_t o, Wide max) { y[o] = Number<T>::store(max); });
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([r = reduction_of(n), dtype = n.type(0).dtype](const KernelArgs& args) {
    with_number(dtype, [&](auto x) { largest<decltype(x)>(r, args.inputs[0], args.outputs[0]); });
  });
}

Verdict supports_vector(const NodeView& n) {
  if (n.type(0).dtype == DType::f16)
    return Verdict::no("takes f32, bf16, f64, i32 and i64, got f16");
  return supports(n);
}

std::unique_ptr<Kernel> make_vector(const NodeView& n, Context&) {
  return make_vector_reduction(n, ReduceOp::max);
}

constexpr KernelChoice kChoices[] = {{"vector", supports_vector, make_vector},
                                     {"reference", supports, make}};

}  // namespace reduce_max_op

constexpr OpKernels kOps[] = {
    {"reduce_sum", reduce_sum_op::kChoices},
    {"reduce_max", reduce_max_op::kChoices},
};

}  // namespace

KernelTable reduce_kernels() { return kOps; }

}  // namespace lamina::cpu
