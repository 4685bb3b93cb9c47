// The small ops of ops.def as functions: elementwise, shapes, reductions, products. The larger ops
// are in layer_ops.h, their definitions in ops.def. Options are generated from ops.def.
// All functions [trace].
//
//   Tensor y = silu(gate) * up + 1;
#pragma once

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "lamina/sdk/op_options.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

using Dims = std::vector<std::int64_t>;

// A tensor and the source line that used it, for errors of operators.
struct Operand {
  Tensor tensor;
  At at;
  Operand(Tensor t, At where = At::current()) : tensor(t), at(where) {}
};

// A scalar with the element type of x. The constant is made in that type if it is i32, i64 or f64,
// because f32 cannot represent every integer above 2^24; else in f32.
inline Tensor number_like(double value, Tensor x, At at = At::current()) {
  const std::uint32_t dtype = x ? x.dtype(at) : 0;
  const std::string_view name = dtype == LAMINA_DTYPE_I32   ? "i32"
                                : dtype == LAMINA_DTYPE_I64 ? "i64"
                                : dtype == LAMINA_DTYPE_F64 ? "f64"
                                                            : "f32";
  const Attrs<Op::constant> attrs =
      Attrs<Op::constant>().text("dtype", name).number("value", value);
  Tensor number = emit_all<Op::constant>({}, attrs, State{x.build}, at).front();
  return emit<Op::cast_like>({number, x}, at);
}

// Every op of ops.def without attributes that maps x to y, or a and b to y, is a function of its
// name: exp(x), maximum(a, b). One of two operands may be a number: maximum(x, 1e-6), less(0, x).
consteval bool is_unary(std::string_view inputs, std::string_view outputs,
                        std::string_view attributes) {
  return inputs == "x" && outputs == "y" && attributes.empty();
}
consteval bool is_binary(std::string_view inputs, std::string_view outputs,
                         std::string_view attributes) {
  return inputs == "a b" && outputs == "y" && attributes.empty();
}
#define LAMINA_OP(id, name, revision, since, inputs, outputs, attributes, doc)                    \
  template <std::same_as<Tensor> X>                                                               \
  requires(is_unary(inputs, outputs, attributes)) Tensor name(X x, At at = At::current()) {       \
    return emit<Op::name>({x}, at);                                                               \
  }                                                                                               \
  template <std::same_as<Tensor> X>                                                               \
  requires(is_binary(inputs, outputs, attributes)) Tensor name(X a, X b, At at = At::current()) { \
    return emit<Op::name>({a, b}, at);                                                            \
  }                                                                                               \
  template <std::same_as<Tensor> X>                                                               \
  requires(is_binary(inputs, outputs, attributes)) Tensor name(X a, double b,                     \
                                                               At at = At::current()) {           \
    return emit<Op::name>({a, number_like(b, a, at)}, at);                                        \
  }                                                                                               \
  template <std::same_as<Tensor> X>                                                               \
  requires(is_binary(inputs, outputs, attributes)) Tensor name(double a, X b,                     \
                                                               At at = At::current()) {           \
    return emit<Op::name>({number_like(a, b, at), b}, at);                                        \
  }
#include "lamina/ops.def"

// a where condition is true, else b. One of a and b may be a number.
inline Tensor select(Tensor condition, Tensor a, Tensor b, At at = At::current()) {
  return emit<Op::select>({condition, a, b}, at);
}
inline Tensor select(Tensor condition, Tensor a, double b, At at = At::current()) {
  return emit<Op::select>({condition, a, number_like(b, a, at)}, at);
}
inline Tensor select(Tensor condition, double a, Tensor b, At at = At::current()) {
  return emit<Op::select>({condition, number_like(a, b, at), b}, at);
}

// x * by, x + by.
inline Tensor scale(Tensor x, double by, At at = At::current()) {
  return emit<Op::scale>({x}, Attrs<Op::scale>().number("by", by), at);
}
inline Tensor shift(Tensor x, double by, At at = At::current()) {
  return emit<Op::shift>({x}, Attrs<Op::shift>().number("by", by), at);
}

// dtype: "f32", "bf16", "i32", ...
inline Tensor cast(Tensor x, std::string_view dtype, At at = At::current()) {
  return emit<Op::cast>({x}, Attrs<Op::cast>().text("dtype", dtype), at);
}

// Casts x to the element type of `like`.
inline Tensor cast_like(Tensor x, Tensor like, At at = At::current()) {
  return emit<Op::cast_like>({x, like}, at);
}

inline Tensor operator+(Operand a, Operand b) { return add(a.tensor, b.tensor, a.at); }
inline Tensor operator-(Operand a, Operand b) { return sub(a.tensor, b.tensor, a.at); }
inline Tensor operator*(Operand a, Operand b) { return mul(a.tensor, b.tensor, a.at); }
inline Tensor operator/(Operand a, Operand b) { return div(a.tensor, b.tensor, a.at); }
inline Tensor operator+(Operand a, double b) { return shift(a.tensor, b, a.at); }
inline Tensor operator+(double a, Operand b) { return shift(b.tensor, a, b.at); }
inline Tensor operator-(Operand a, double b) { return shift(a.tensor, -b, a.at); }
inline Tensor operator*(Operand a, double b) { return scale(a.tensor, b, a.at); }
inline Tensor operator*(double a, Operand b) { return scale(b.tensor, a, b.at); }
inline Tensor operator/(Operand a, double b) { return scale(a.tensor, 1 / b, a.at); }
inline Tensor operator-(Operand a) { return neg(a.tensor, a.at); }
inline Tensor operator-(double a, Operand b) { return shift(neg(b.tensor, b.at), a, b.at); }

inline Tensor& operator+=(Tensor& a, Operand b) { return a = add(a, b.tensor, b.at); }
inline Tensor& operator-=(Tensor& a, Operand b) { return a = sub(a, b.tensor, b.at); }
inline Tensor& operator*=(Tensor& a, Operand b) { return a = mul(a, b.tensor, b.at); }

// Shape.
inline Tensor reshape(Tensor x, const Dims& shape, At at = At::current()) {
  return emit<Op::reshape>({x}, Attrs<Op::reshape>().integers("shape", shape), at);
}
// Dim i of the result is dim perm[i] of x.
inline Tensor transpose(Tensor x, const Dims& perm, At at = At::current()) {
  return emit<Op::transpose>({x}, Attrs<Op::transpose>().integers("perm", perm), at);
}
struct SliceOptions {
  LAMINA_SLICE_OPTIONS
};
inline Tensor slice(Tensor x, const SliceOptions& o, At at = At::current()) {
  return emit<Op::slice>({x}, slice_attrs(o), at);
}
// The helpers below are templates, so that a function of a plugin with the same name is preferred.
// Elements `start` to `start + size` of the last dim.
template <std::same_as<Tensor> X>
Tensor columns(X x, std::int64_t start, std::int64_t size, At at = At::current()) {
  return slice(x, {.dim = -1, .start = start, .size = size}, at);
}
// Splits the last dim into consecutive parts of these sizes:
//   auto [gate, up] = split_columns(x, {f, f});
template <std::same_as<Tensor> X, std::size_t count>
std::array<Tensor, count> split_columns(X x, const std::int64_t (&sizes)[count],
                                        At at = At::current()) {
  std::array<Tensor, count> out;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < count; start += sizes[i++]) out[i] = columns(x, start, sizes[i], at);
  if (const std::int64_t width = x.dim(-1, at); start != width)
    raise(Error(LAMINA_ERROR_SHAPE,
                "split_columns: the sizes have the sum " + std::to_string(start) +
                    "; expected the last dim, " + std::to_string(width),
                at));
  return out;
}
// Inserts a dim of size 1, as dim `dim` of the result; negative values count from its last dim.
template <std::same_as<Tensor> X>
Tensor unsqueeze(X x, int dim = -1, At at = At::current()) {
  Dims shape = x.shape(at);
  const int count = static_cast<int>(shape.size()) + 1, index = dim < 0 ? dim + count : dim;
  if (index < 0 || index >= count)
    raise(Error(LAMINA_ERROR_SHAPE,
                "unsqueeze: dim " + std::to_string(dim) + " is out of range: the result has " +
                    std::to_string(count) + " dims",
                at));
  shape.insert(shape.begin() + index, 1);
  return reshape(x, shape, at);
}
inline Tensor concat(const std::vector<Tensor>& xs, std::int64_t dim, At at = At::current()) {
  return emit_all<Op::concat>(xs, Attrs<Op::concat>().integer("dim", dim), State{}, at).front();
}
inline Tensor broadcast(Tensor x, const Dims& shape, At at = At::current()) {
  return emit<Op::broadcast>({x}, Attrs<Op::broadcast>().integers("shape", shape), at);
}
struct ConstantOptions {
  LAMINA_CONSTANT_OPTIONS
};
// `trace` only selects the trace.
inline Tensor constant(const Scope& trace, const ConstantOptions& o, At at = At::current()) {
  return emit_all<Op::constant>({}, constant_attrs(o), State{trace.build()}, at).front();
}
struct ConstantDataOptions {
  LAMINA_CONSTANT_DATA_OPTIONS
};
inline Tensor constant_data(const Scope& trace, const ConstantDataOptions& o,
                            At at = At::current()) {
  return emit_all<Op::constant_data>({}, constant_data_attrs(o), State{trace.build()}, at).front();
}
// Uniform numbers in [0, 1) in training, f32; 0.5 in other phases.
inline Tensor random(const Scope& trace, const Dims& shape, At at = At::current()) {
  return emit_all<Op::random>({}, Attrs<Op::random>().integers("shape", shape),
                              State{trace.build()}, at)
      .front();
}
struct IotaOptions {
  LAMINA_IOTA_OPTIONS
};
inline Tensor iota(const Scope& trace, const IotaOptions& o, At at = At::current()) {
  return emit_all<Op::iota>({}, iota_attrs(o), State{trace.build()}, at).front();
}
struct PadOptions {
  LAMINA_PAD_OPTIONS
};
inline Tensor pad(Tensor x, const PadOptions& o, At at = At::current()) {
  return emit<Op::pad>({x}, pad_attrs(o), at);
}

// The size of a dim as a graph value, i32[]; x.dim() gives the number at build time.
inline Tensor dim_size(Tensor x, std::int64_t dim, At at = At::current()) {
  return emit<Op::dim_size>({x}, Attrs<Op::dim_size>().integer("dim", dim), at);
}
// Replaces dim of x by the dims of ids, whose elements are indices along it.
inline Tensor gather(Tensor x, Tensor ids, std::int64_t dim, At at = At::current()) {
  return emit<Op::gather>({x, ids}, Attrs<Op::gather>().integer("dim", dim), at);
}
// Element n along dim is the sum of the elements of x with ids[k] = n, for n < size.
struct ScatterOptions {
  LAMINA_SCATTER_OPTIONS
};
inline Tensor scatter(Tensor x, Tensor ids, const ScatterOptions& o, At at = At::current()) {
  return emit<Op::scatter>({x, ids}, scatter_attrs(o), at);
}

// Reductions and products.
struct ReduceSumOptions {
  LAMINA_REDUCE_SUM_OPTIONS
};
// dtype: of the result; empty = x's.
inline Tensor reduce_sum(Tensor x, const ReduceSumOptions& o, At at = At::current()) {
  return emit<Op::reduce_sum>({x}, reduce_sum_attrs(o), at);
}
struct ReduceMaxOptions {
  LAMINA_REDUCE_MAX_OPTIONS
};
inline Tensor reduce_max(Tensor x, const ReduceMaxOptions& o, At at = At::current()) {
  return emit<Op::reduce_max>({x}, reduce_max_attrs(o), at);
}
struct ReduceMeanOptions {
  LAMINA_REDUCE_MEAN_OPTIONS
};
inline Tensor reduce_mean(Tensor x, const ReduceMeanOptions& o, At at = At::current()) {
  return emit<Op::reduce_mean>({x}, reduce_mean_attrs(o), at);
}
struct ReduceMinOptions {
  LAMINA_REDUCE_MIN_OPTIONS
};
inline Tensor reduce_min(Tensor x, const ReduceMinOptions& o, At at = At::current()) {
  return emit<Op::reduce_min>({x}, reduce_min_attrs(o), at);
}
struct LogsumexpOptions {
  LAMINA_LOGSUMEXP_OPTIONS
};
inline Tensor logsumexp(Tensor x, const LogsumexpOptions& o, At at = At::current()) {
  return emit<Op::logsumexp>({x}, logsumexp_attrs(o), at);
}
struct CumsumOptions {
  LAMINA_CUMSUM_OPTIONS
};
inline Tensor cumsum(Tensor x, const CumsumOptions& o, At at = At::current()) {
  return emit<Op::cumsum>({x}, cumsum_attrs(o), at);
}
// Returns i32: the indices that sort the last dim.
inline Tensor argsort(Tensor x, bool descending = false, At at = At::current()) {
  return emit<Op::argsort>({x}, Attrs<Op::argsort>().flag("descending", descending), at);
}
struct MatmulOptions {
  LAMINA_MATMUL_OPTIONS
};
// Dims before the last two are broadcast as in NumPy. acc may be empty. dtype: of the result; empty
// = a's.
inline Tensor matmul(Tensor a, Tensor b, const MatmulOptions& o = {}, Tensor acc = {},
                     At at = At::current()) {
  const Dims of_a = a.shape(at), of_b = b.shape(at);
  if (of_a.size() >= 2 && of_b.size() >= 2) {
    const std::size_t leading = std::max(of_a.size(), of_b.size()) - 2;
    Dims common(leading);
    for (std::size_t i = 0; i < leading; ++i) {
      const auto dim = [&](const Dims& dims) {
        return i + dims.size() < leading + 2 ? 1 : dims[i + dims.size() - leading - 2];
      };
      common[i] = dim(of_a) == 1 ? dim(of_b) : dim(of_a);
    }
    const auto widened = [&](Tensor x, const Dims& dims) {
      Dims shape = common;
      shape.insert(shape.end(), dims.end() - 2, dims.end());
      return shape == dims ? x : broadcast(x, shape, at);
    };
    a = widened(a, of_a);
    b = widened(b, of_b);
  }
  return emit<Op::matmul>({a, b, acc}, matmul_attrs(o), at);
}
struct SinkhornOptions {
  LAMINA_SINKHORN_OPTIONS
};
inline Tensor sinkhorn(Tensor x, const SinkhornOptions& o = {}, At at = At::current()) {
  return emit<Op::sinkhorn>({x}, sinkhorn_attrs(o), at);
}
struct TopKOptions {
  LAMINA_TOP_K_OPTIONS
};
// Returns values, ids: the k largest elements of the last dim and their indices.
inline std::array<Tensor, 2> top_k(Tensor x, const TopKOptions& o, At at = At::current()) {
  return emit_all<Op::top_k>(std::array{x}, top_k_attrs(o), State{}, at);
}
inline Tensor take_along(Tensor x, Tensor ids, At at = At::current()) {
  return emit<Op::take_along>({x, ids}, at);
}
inline Tensor scatter_along(Tensor x, Tensor ids, std::int64_t size, At at = At::current()) {
  return emit<Op::scatter_along>({x, ids}, Attrs<Op::scatter_along>().integer("size", size), at);
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
