// The kernels of reduce_sum and reduce_max.
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/reduce/reduce.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

struct ReducedDim {
  std::int64_t size;
  std::int64_t stride;  // in elements of x
};

// Kept dims and reduced dims of x, neighbours merged.
struct Reduction {
  std::vector<ReducedDim> kept, reduced;
  std::int64_t num_outputs = 1;
  std::int64_t num_reduced = 1;  // elements per output
};

Reduction reduction_of(const NodeView& n) {
  const Type& x = n.type(0);
  unsigned mask = 0;
  for (std::int64_t dim : n.list("dims")) mask |= 1u << counted_dim(dim, x.ndim());
  Reduction out;
  int last_kind = -1;
  for (int d = 0; d < x.ndim(); ++d) {
    const int kind = static_cast<int>(mask >> d & 1);
    auto& dims = kind ? out.reduced : out.kept;
    const std::int64_t stride = product(x.shape, d + 1, x.ndim());
    (kind ? out.num_reduced : out.num_outputs) *= x.dim(d);
    if (x.dim(d) == 1) continue;
    if (kind == last_kind && !dims.empty())
      dims.back() = {dims.back().size * x.dim(d), stride};
    else
      dims.push_back({x.dim(d), stride});
    last_kind = kind;
  }
  return out;
}

std::int64_t reduced_offset(const std::vector<ReducedDim>& dims, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return offset;
}

// For every output, in parallel: state = start(), then step(state, offset in x) for each of its
// elements in the order of x, then finish(output index, state).
template <typename Start, typename Step, typename Finish>
void reduce_in_order(const Reduction& r, Start start, Step step, Finish finish) {
  const ReducedDim inner = r.reduced.empty() ? ReducedDim{1, 0} : r.reduced.back();
  const std::int64_t runs = inner.size ? r.num_reduced / inner.size : 0;
  const std::int64_t min_outputs = 1 + 4096 / (1 + r.num_reduced);
  parallel_ranges(r.num_outputs, min_outputs, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      auto state = start();
      const std::int64_t base = reduced_offset(r.kept, o);
      for (std::int64_t run = 0; run < runs; ++run) {
        std::int64_t at = base + reduced_offset(r.reduced, run * inner.size);
        for (std::int64_t i = 0; i < inner.size; ++i, at += inner.stride) step(state, at);
      }
      finish(o, state);
    }
  });
}

// Returns the vector kernel of a reduction over the dims of a node.
std::unique_ptr<Kernel> make_vector_reduction(const NodeView& n, ReduceOp op) {
  const Type& x = n.type(0);
  Reduce r{.op = op,
           .dtype = x.dtype,
           .dims = x.shape,
           .strides = {},
           .reduced = {},
           .x = nullptr,
           .y = nullptr,
           .y_dtype = n.out_type().dtype};
  for (int d = 0; d < x.ndim(); ++d)
    r.strides[static_cast<std::size_t>(d)] = product(x.shape, d + 1, x.ndim());
  for (std::int64_t dim : n.list("dims"))
    r.reduced[static_cast<std::size_t>(counted_dim(dim, x.ndim()))] = true;
  return make_kernel(
      [r](const KernelArgs& args) mutable {
        r.x = args.inputs[0];
        r.y = args.outputs[0];
        r.workspace = args.workspace;
        reduce(r);
      },
      reduce_workspace_bytes(r));
}

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
